package ops

import (
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const (
	certificateEnd      = `card_gateway_certificate_end_timestamp_seconds{use="server"}`
	certificatesOverdue = `card_gateway_certificates_overdue{use="server"}`
)

// writeCertificate writes a certificate that lives for 90 days from a time on into
// NAME.pem and NAME.key, and returns the Unix time of its end.
func writeCertificate(t testing.TB, g *harness.Gateway, name string, begins time.Time) (end float64) {
	t.Helper()
	ends := begins.Add(90 * 24 * time.Hour)
	cert, key, _ := (*harness.Authority)(nil).SignFor(t, name+".example", begins, ends)
	g.WriteFile(name+".pem", string(cert))
	g.WriteFile(name+".key", string(key))
	return float64(ends.Unix())
}

// fileSite returns a site that serves such a certificate, and the end of that.
func fileSite(t testing.TB, g *harness.Gateway, name string, begins time.Time) (site string, end float64) {
	t.Helper()
	end = writeCertificate(t, g, name, begins)
	_, port, _ := net.SplitHostPort(harness.FreeAddress(t))
	site = fmt.Sprintf("https://%s.example:%s {\nbind 127.0.0.1\ntls %s %s\n}\n", name, port, g.Path(name+".pem"), g.Path(name+".key"))
	return site, end
}

// wantNoCertificates waits until the gateway has no series of certificates.
func wantNoCertificates(t *testing.T, g *harness.Gateway) {
	t.Helper()
	harness.Eventually(t, "there is no series of certificates", func() bool {
		samples := g.Scrape(t)
		_, hasEnd := samples[certificateEnd]
		_, hasOverdue := samples[certificatesOverdue]
		return !hasEnd && !hasOverdue
	})
}

// TestCertificatesInMetrics serves certificates from files, a healthy one and one that
// ends in three days, and then none, as behind a proxy that speaks TLS.
func TestCertificatesInMetrics(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	healthy, healthyEnd := fileSite(t, g, "healthy", time.Now().Add(-day))
	ending, endingEnd := fileSite(t, g, "ending", time.Now().Add(-87*day))
	plain := g.Site
	with := func(sites string) harness.Site {
		s := plain
		s.Sites = sites
		return s
	}
	g.Site = with(healthy)
	g.Start()
	wantGauge(t, g, certificateEnd, healthyEnd)
	wantGauge(t, g, certificatesOverdue, 0)
	g.Reload(with(healthy + ending))
	wantGauge(t, g, certificateEnd, endingEnd)
	wantGauge(t, g, certificatesOverdue, 1)
	g.Reload(with(healthy))
	wantGauge(t, g, certificateEnd, healthyEnd)
	wantGauge(t, g, certificatesOverdue, 0)
	g.Reload(plain)
	wantNoCertificates(t, g)
}

// TestCertificatesOnDemandAreNotOverdue obtains one on demand that ends a second
// later. Caddy renews it when a client asks, so the metrics leave it out. A
// certificate from a file beside it is watched, also under a policy for all names.
func TestCertificatesOnDemandAreNotOverdue(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	asked := harness.FreeAddress(t)
	_, port, _ := net.SplitHostPort(asked)
	demand := "https://:" + port + " {\nbind 127.0.0.1\ntls {\nissuer internal {\nlifetime 1s\n}\non_demand\n}\n}\n"
	file, end := fileSite(t, g, "file", time.Now().Add(-89*24*time.Hour))
	g.Site.Sites = demand
	g.Start()
	conn, err := tls.Dial("tcp", asked, &tls.Config{ServerName: "asked.example", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	served := conn.ConnectionState().PeerCertificates[0]
	_ = conn.Close()
	harness.Eventually(t, "the certificate has ended", func() bool { return time.Now().After(served.NotAfter.Add(time.Second)) })
	site := g.Site
	site.Sites = file + demand
	g.Reload(site)
	wantGauge(t, g, certificateEnd, end)
	wantGauge(t, g, certificatesOverdue, 1)
	site.Sites = demand
	g.Reload(site)
	wantNoCertificates(t, g)
}

// TestClientCertificateInMetrics shows issuers a certificate that ends in three days,
// writes a new one over it, and then shows none.
func TestClientCertificateInMetrics(t *testing.T) {
	t.Parallel()
	const end, overdue = `card_gateway_certificate_end_timestamp_seconds{use="client"}`, `card_gateway_certificates_overdue{use="client"}`
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	plain := g.Site
	g.Site.Proxy = "tls {\nclient_certificate " + g.Path("shown.pem") + " " + g.Path("shown.key") + "\n}"
	ends := writeCertificate(t, g, "shown", time.Now().Add(-87*24*time.Hour))
	g.Start()
	wantGauge(t, g, end, ends)
	wantGauge(t, g, overdue, 1)
	ends = writeCertificate(t, g, "shown", time.Now())
	wantGauge(t, g, end, ends)
	wantGauge(t, g, overdue, 0)
	g.Reload(plain)
	harness.Eventually(t, "the certificate has no series", func() bool {
		_, has := g.Scrape(t)[end]
		return !has
	})
}
