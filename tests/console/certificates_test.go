package console

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A certificate is one of the status.
type certificate struct{ Names []string }

// certificates returns the names of all certificates of the status, sorted.
func certificates(t *testing.T, g *harness.Gateway) (names []string) {
	t.Helper()
	var status struct {
		Certificates []certificate
		Count        int `json:"certificate_count"`
	}
	_, text := g.Admin(http.MethodGet, "/card-gateway/status?keys=no", "", "")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Certificates {
		names = append(names, c.Names...)
	}
	if status.Count != len(status.Certificates) {
		t.Errorf("%d certificates are counted in %s", status.Count, text)
	}
	slices.Sort(names)
	return names
}

// TestOverdueCertificate has one that ended two days ago, one that ends in two days,
// and a healthy one: the overview names the first two above everything else.
func TestOverdueCertificate(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	g, home := start(t, "", "")
	site := g.Site
	for name, left := range map[string]time.Duration{"ended": -2 * day, "ending": 2*day + time.Hour, "healthy": 60 * day} {
		cert, private, _ := (*harness.Authority)(nil).SignFor(t, name+".example", time.Now().Add(left-90*day), time.Now().Add(left))
		g.WriteFile(name+".pem", string(cert))
		g.WriteFile(name+".key", string(private))
		site.Sites += "https://" + name + ".example:" + port(harness.FreeAddress(t)) + " {\nbind 127.0.0.1\ntls " + g.Path(name+".pem") + " " + g.Path(name+".key") + "\n}\n"
	}
	g.Reload(site)
	p := openPage(t, home, path)
	p.signIn(viewer)
	text := p.see("The certificate of ended.example should have been renewed. It ended 2 days ago.",
		"The certificate of ending.example should have been renewed. It ends in 2 days.", "healthy.example")
	if strings.Contains(text, "certificate of healthy.example") {
		t.Errorf("the healthy one is named above:\n%s", text)
	}
}

// TestCertificates has a certificate of every kind that Caddy keeps: from files for
// a site without a name, by the internal issuer, and on demand. The status shows
// what is loaded, and no longer what a reload has removed.
func TestCertificates(t *testing.T) {
	t.Parallel()
	cert, private, _ := (*harness.Authority)(nil).Sign(t, "files.example")
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.WriteFile("cert.pem", string(cert))
	g.WriteFile("key.pem", string(private))
	asked := harness.FreeAddress(t)
	files := "https://:" + port(harness.FreeAddress(t)) + " {\nbind 127.0.0.1\ntls " + g.Path("cert.pem") + " " + g.Path("key.pem") + "\n}\n"
	others := "https://internal.example:" + port(harness.FreeAddress(t)) + " {\nbind 127.0.0.1\ntls internal\n}\n" +
		"https://*.demand.example:" + port(asked) + " {\nbind 127.0.0.1\ntls {\nissuer internal\non_demand\n}\n}\n"
	g.Site.Sites = files + others
	g.Start()
	harness.Eventually(t, "the certificates of files and of the internal issuer are shown", func() bool {
		return slices.Equal(certificates(t, g), []string{"files.example", "internal.example"})
	})

	conn, err := tls.Dial("tcp", asked, &tls.Config{ServerName: "asked.demand.example", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if got := certificates(t, g); !slices.Equal(got, []string{"asked.demand.example", "files.example", "internal.example"}) {
		t.Errorf("after a connection on demand the certificates are of %v", got)
	}
	said, err := g.Command("card-status", "--verbose", "--address", "unix/"+g.Path("admin.sock")).CombinedOutput()
	for _, want := range []string{"files.example", "internal.example", "asked.demand.example", "until 2", "from now", "Caddy Local Authority"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("card-status --verbose does not show %q (%v):\n%s", want, err, said)
		}
	}

	site := g.Site
	site.Sites = others
	g.Reload(site)
	harness.Eventually(t, "a removed certificate is no longer shown", func() bool {
		return !slices.Contains(certificates(t, g), "files.example")
	})
}
