package console

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestDebugger uses the debugger of `make run` by the keyboard: it shows each step of a
// request that the gateway then accepts, says what is wrong with the same request
// when a byte of it was changed, and never shows the secret. It runs no script.
func TestDebugger(t *testing.T) {
	t.Parallel()
	chromium(t)
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	page, err := filepath.Abs("../../demo/page")
	if err != nil {
		t.Fatal(err)
	}
	g.Site.Extra = "handle /style.css {\nroot " + page + "\nfile_server\n}\nhandle /debugger {\ncard_sandbox_debugger {\nkey_file " + g.Path("id") + "\nsecret_file " + g.Path("secret") + "\n}\n}\n"
	g.Start()
	key := g.NewKey(nil)
	g.WriteFile("id", key.ID+"\n")
	g.WriteFile("secret", key.Secret)
	p := openPage(t, "http://"+g.Addr, "/debugger?method=POST&target=/api/v1/cards%3Fb%3D2%26a%3D%25c3&body=%7B%22amount%22%3A%22%C3%A9%22%7D")
	p.see(key.ID, "String to sign", "SHA-256 of the 15 bytes of the body")
	p.lookLoaded("the steps")
	raw := p.eval("document.getElementById('raw').textContent")
	head, body, _ := strings.Cut(raw, "\n\n")
	harness.WantAccepted(t, g.SendRaw(t, strings.ReplaceAll(head, "\n", "\r\n")+"\r\nConnection: close\r\n\r\n"+body))

	p.tabTo("e.id === 'request'")
	p.write(strings.Replace(raw, "amount", "Amount", 1))
	p.use(button("Explain"))
	text := p.see("This is what card-explain says", "POST /api/v1/cards?b=2&a=%c3, body of 15 bytes", "body_changed: the signature over the sent X-Body-Hash is right")
	p.lookLoaded("an explanation")
	p.tabTo("e.id === 'target'")
	p.write("api") // no path
	p.press("Enter")
	p.see("This is what card-explain says") // the browser itself refuses the field
	p.eval("document.getElementById('target').value = '/a/../b'")
	p.use(button("Show each step"))
	text += p.see("It cannot be signed")
	if text += p.eval("document.documentElement.outerHTML"); strings.Contains(text, key.Secret) {
		t.Errorf("the page shows the secret:\n%s", text)
	}
}

// lookLoaded looks at a page as soon as it has its styles.
func (p *page) lookLoaded(what string) {
	p.t.Helper()
	harness.Eventually(p.t, what+": loaded", func() bool { return p.eval("document.readyState") == "complete" })
	p.look(what)
}
