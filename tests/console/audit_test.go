package console

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// refused returns the actions of the lines of the audit record for calls that were
// answered 401, in their order.
func refused(t *testing.T, g *harness.Gateway) (actions []string) {
	t.Helper()
	for line := range strings.Lines(g.ReadFile("audit.log")) {
		var l struct {
			Action string
			Status int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if l.Status == http.StatusUnauthorized {
			actions = append(actions, l.Action)
		}
	}
	return actions
}

// TestOpeningIsNoAttempt opens the console, reloads it and signs out of it: none of
// these is a line of the audit record. A wrong token is one, and so is a call without
// a token that the page would not make.
func TestOpeningIsNoAttempt(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.WriteFile("tokens", "alice keys "+token+"\n")
	g.Site.Global = "admin_token file " + g.Path("tokens") + "\naudit file " + g.Path("audit.log")
	g.Site.Extra = "handle /card-gateway/* {\ncard_console\n}\n"
	g.Start()
	home := "http://" + g.Addr
	p := openPage(t, home, path)
	p.see("opens to a token")
	p.eval("location.reload()")
	p.signIn(token)
	p.see("Overview", "alice")
	p.use(button("Sign out"))
	p.signIn(strings.Repeat("x", 40))
	p.see("admin_token has no such token")
	answer, err := http.Get(home + "/card-gateway/keys")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	harness.Eventually(t, "the last refused call is recorded", func() bool {
		all := refused(t, g)
		return len(all) > 0 && all[len(all)-1] == "list"
	})
	if all := refused(t, g); strings.Join(all, " ") != "status list" {
		t.Errorf("the record has the refused calls %q, want that with the wrong token and that without one", all)
	}
}

// TestTrail shows on the page of a key who changed it, in whose name, and how, in texts
// that stay texts.
func TestTrail(t *testing.T) {
	t.Parallel()
	chromium(t)
	g, home := start(t, "", "changes")
	site := g.Site
	key := g.NewKey(nil)
	p := openPage(t, home, path+"#/keys/"+key.ID)
	p.signIn(token)
	p.see("the audit record of this gateway is its log")
	site.Global += "\naudit file " + g.Path("audit.log")
	g.Reload(site)
	request, _ := http.NewRequest(http.MethodPost, home+"/card-gateway/keys/"+key.ID+"/disable", nil)
	request.Header.Set("Authorization", "Bearer "+viewer)
	request.Header.Set("X-Card-Gateway-Actor", "<b>"+strings.Repeat("a-long-name.", 10))
	answered, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answered.Body.Close()
	p.use(button("Disable"))
	p.use(answer("Disable"))
	text := p.see("from its first line on", "disabled: none → true", "alice", "bob, who says: <b>a-long-name", "refused 403 the role viewer may only read")
	if strings.Index(text, "disabled: none") > strings.Index(text, "who says") {
		t.Errorf("the newest line is not the first:\n%s", text)
	}
	p.look("an audit trail")
}

// TestSocketNeedsNoToken forwards a port to the admin socket, as ssh does: the
// console opens without a token, and shows how long the gateway is drained.
func TestSocketNeedsNoToken(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.Site.Global = "audit file " + g.Path("audit.log")
	g.Start()
	address := forward(t, g.Path("admin.sock"))
	admin := "admin unix/" + g.Dir + "/admin.sock"
	g.ReloadText(t, strings.Replace(g.Caddyfile(), admin, admin+" {\norigins "+address+" \"\"\n}", 1))
	g.Admin(http.MethodPost, "/card-gateway/drain", "application/json", `{"for":"24h"}`)
	p := openPage(t, "http://"+address, path)
	p.see("Overview", "may change keys", "Out of service", "drained by an operator until", "(in 24 hours)")
	g.Admin(http.MethodPost, "/card-gateway/drain", "application/json", `{}`)
	p.see("who named no end", "card-node undrain puts it back")
	if all := refused(t, g); len(all) > 0 {
		t.Errorf("the record has the refused calls %q", all)
	}
}

// forward returns the address of a port whose connections go to a unix socket.
func forward(t *testing.T, socket string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				_ = near.Close()
				continue
			}
			go pipe(near, far)
			go pipe(far, near)
		}
	}()
	return listener.Addr().String()
}

// pipe copies what arrives until the end, and closes both.
func pipe(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = from.Close(), to.Close()
}
