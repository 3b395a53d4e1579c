package docs

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// layer4 returns the lines of the global options and of HAProxy that the page shows
// for a balancer on layer 4, with the addresses of the test.
func layer4(t *testing.T, balancer, gateway string) (options, haproxy string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(text), "\n## On layer 4\n")
	shown := regexp.MustCompile("(?ms)^```caddyfile\n(.*?)^```$").FindStringSubmatch(part)
	parts, err := os.ReadFile("../../ops/two-nodes/haproxy-layer4.cfg")
	if err != nil || shown == nil || !strings.Contains(part, "](../ops/two-nodes/haproxy-layer4.cfg)") {
		t.Fatalf("docs/load-balancers.md does not show the options for layer 4, or links to no haproxy-layer4.cfg: %v", err)
	}
	_, port, _ := net.SplitHostPort(gateway)
	options = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(shown[1]), "{"), "}")
	options = strings.NewReplacer("10.0.0.4/32", "127.0.0.1/32", "servers {", "servers 127.0.0.1:"+port+" {").Replace(options)
	haproxy = strings.NewReplacer("bind :443", "bind "+balancer, "10.0.0.11:8443", gateway).Replace(string(parts))
	return options, regexp.MustCompile(`(?m)^\s*server b .*\n`).ReplaceAllString(haproxy, "")
}

// TestLayer4 puts a HAProxy in front of a gateway that ends TLS, both as the page
// says. The gateway must know the client's address, and believe nobody else's header.
func TestLayer4(t *testing.T) {
	t.Parallel()
	balancer, gateway := harness.FreeAddress(t), harness.FreeAddress(t)
	options, haproxy := layer4(t, balancer, gateway)
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr, Options: options})
	cert, key, _ := (*harness.Authority)(nil).Sign(t, "cards.example.com")
	g.WriteFile("cert.pem", string(cert))
	g.WriteFile("key.pem", string(key))
	_, port, _ := net.SplitHostPort(gateway)
	g.Site.Sites = fmt.Sprintf(`https://:%s {
	bind 127.0.0.1
	tls %s %s
	handle /readyz {
		card_health ready
	}
	handle {
		card_auth
		card_self
	}
}`, port, g.Path("cert.pem"), g.Path("key.pem"))
	g.Start()
	startHAProxy(t, haproxy)
	credentials := g.NewKey(nil)
	for _, way := range []struct{ to, header string }{
		{to: balancer},
		{gateway, "PROXY TCP4 192.0.2.1 127.0.0.1 4711 443\r\n"}, // a stranger's
	} {
		answer := overTLS(t, way.to, way.header, credentials.Request(http.MethodPost, "/gateway/v1/echo", "{}"))
		if answer.Status != http.StatusOK || !strings.Contains(answer.Body, `"client_ip":"127.0.0.2"`) {
			t.Errorf("a client at 127.0.0.2 that sends to %s after %q is answered %s", way.to, way.header, answer)
		}
	}
}

// overTLS sends text and then, over TLS, a request from 127.0.0.2.
func overTLS(t *testing.T, address, text string, r *harness.Request) *harness.Response {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	var wire *harness.Wire
	harness.Eventually(t, "there is a node behind "+address, func() bool {
		conn, err := dialer.Dial("tcp", address)
		if err != nil {
			return false
		}
		_, _ = io.WriteString(conn, text)
		secured := tls.Client(conn, &tls.Config{ServerName: "cards.example.com", InsecureSkipVerify: true})
		if secured.Handshake() != nil {
			_ = conn.Close()
			return false
		}
		wire = &harness.Wire{Conn: secured, In: bufio.NewReader(secured)}
		return true
	})
	defer wire.Close()
	wire.WriteText(t, r.Raw())
	answer, err := wire.Receive(r.Method)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// startHAProxy runs a HAProxy with the lines until the test ends.
func startHAProxy(t *testing.T, lines string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := "defaults\n\ttimeout connect 30s\n\ttimeout client 60s\n\ttimeout server 60s\n\ttimeout check 30s\n" + lines
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("haproxy")
	if err != nil {
		path = "/usr/sbin/haproxy"
	}
	cmd := exec.Command(path, "-db", "-f", config)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; tests/install-tools.sh haproxy installs it", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("what haproxy said:\n%s", said.String())
		}
	})
}
