package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// button returns what tabTo looks for: a button by its label, in a dialog or not.
func button(label string) string {
	return fmt.Sprintf("e.tagName === 'BUTTON' && e.textContent === '%s' && !e.closest('dialog')", label)
}

func answer(label string) string {
	return fmt.Sprintf("e.tagName === 'BUTTON' && e.textContent === '%s' && !!e.closest('dialog')", label)
}

// TestChanges presses every change of a key by the keyboard and sees its effect on
// requests: rotate with a refused and an accepted time, disable and enable, unlock,
// forget failures.
func TestChanges(t *testing.T) {
	t.Parallel()
	chromium(t)
	g, home := start(t, "", "changes")
	site := g.Site
	site.Global += "\nlock_after 2"
	g.Reload(site)
	key := g.NewKey(harness.Fields{"tenant": "northern.bank"})
	p := openPage(t, home, path+"#/keys/"+key.ID)
	p.signIn(token)
	p.see("Live secrets")

	p.use(button("Rotate"))
	p.see("For how long")
	p.write("soon") // over the proposal, which is selected
	p.press("Enter")
	p.see(`overlap: want a duration such as "24h", "7d" or "0"`, "For how long")
	p.eval("document.getElementById('answer').select()")
	p.write("1h")
	p.press("Enter")
	p.see("The secret, shown this once")
	next := g.Made(harness.Credentials{ID: key.ID, Secret: p.eval("document.getElementById('secret').textContent")})
	harness.WantAccepted(t, g.Send(t, next.Get()))
	harness.WantAccepted(t, g.Send(t, key.Get())) // within the hour
	p.use(answer("I have stored it"))
	p.see("in 60 minutes")
	p.wantGone(next.Secret)

	p.use(button("Disable"))
	p.use(answer("Cancel"))
	harness.WantAccepted(t, g.Send(t, key.Get()))
	p.use(button("Disable"))
	p.use(answer("Disable"))
	p.use(button("Enable"))
	p.see("active")
	p.tabTo(button("Disable"))
	harness.WantAccepted(t, g.Send(t, key.Get()))

	g.Send(t, key.Get().Forge())
	p.use(button("Read again"))
	p.use(button("Forget the failures"))
	p.use(answer("Forget"))
	p.gone("[data-change=unlock]")
	g.WantFailures(t, key, 0)
	for _, r := range append(key.Forged(2), key.Get()) {
		g.Send(t, r)
	}
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	p.use(button("Read again"))
	p.see("locked", "until an operator unlocks it")
	p.use(button("Unlock"))
	p.see("locks it again")
	p.use(answer("Cancel"))
	harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	p.use(button("Unlock"))
	p.use(answer("Unlock"))
	p.gone("[data-change=unlock]")
	p.see("active")
	harness.WantAccepted(t, g.Send(t, next.Get()))
}

// wantGone fails the test if a secret is in the page.
func (p *page) wantGone(secret string) {
	p.t.Helper()
	if all := p.eval("document.documentElement.outerHTML + [...document.querySelectorAll('input')].map((e) => e.value)"); secret == "" || strings.Contains(all, secret) {
		p.t.Errorf("the secret is in the page:\n%s", all)
	}
}

// TestLeaving leaves the page while it shows a secret, in the ways that there are:
// by a link within it, to another page and back, and by signing out. The secret and
// what the token has shown are gone, and coming back needs the token.
func TestLeaving(t *testing.T) {
	t.Parallel()
	chromium(t)
	g, home := start(t, "", "changes")
	key := g.NewKey(harness.Fields{"tenant": "northern.bank"})
	p := openPage(t, home, path+"#/keys/"+key.ID)
	p.signIn(token)
	secret := func() string {
		p.see("Live secrets")
		p.use(button("Rotate"))
		p.see("For how long")
		p.press("Enter")
		p.see("The secret, shown this once")
		return g.Made(harness.Credentials{ID: key.ID, Secret: p.eval("document.getElementById('secret').textContent")}).Secret
	}
	shown := secret()
	p.visit("keys", "1 key,")
	p.wantGone(shown)
	p.visit("keys/"+key.ID, "Live secrets")

	shown = secret()
	p.do("Page.navigate", map[string]any{"url": home + "/livez"}, nil)
	harness.Eventually(t, "the other page is shown", func() bool { return p.eval("location.pathname") == "/livez" })
	p.eval("history.back()")
	if text := p.see("opens to a token"); strings.Contains(text, "northern.bank") {
		t.Errorf("coming back shows a key without a token:\n%s", text)
	}
	p.wantGone(shown)
	p.signIn(token)
	shown = secret()
	// A browser that keeps the page says so. This one does not, while it is driven.
	p.eval("window.dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
	p.wantGone(shown)
	p.signIn(token)
	p.see("northern.bank")
	p.use(button("Sign out"))
	if text := p.see("opens to a token"); strings.Contains(text, "northern.bank") || strings.Contains(text, "alice") {
		t.Errorf("after signing out the page shows\n%s", text)
	}
}

// TestViewer has the token of a viewer on a console with changes: it sees no button
// that changes a key, and the server refuses, also what the page itself sends when
// the role has changed since.
func TestViewer(t *testing.T) {
	t.Parallel()
	chromium(t)
	g, home := start(t, "", "changes")
	key := g.NewKey(nil)
	p := openPage(t, home, path+"#/keys/"+key.ID)
	p.signIn(viewer)
	p.see("bob (may only read)", "Live secrets")
	if buttons := p.eval("[...document.querySelectorAll('button')].filter((e) => e.checkVisibility()).map((e) => e.textContent)"); buttons != "Read again,Sign out" {
		t.Errorf("a viewer sees the buttons %s", buttons)
	}
	p.visit("keys", "1 key,")
	if text := p.eval("document.body.innerText"); strings.Contains(text, "Make a key") {
		t.Errorf("a viewer may make a key:\n%s", text)
	}
	for _, change := range []string{"/rotate", "/disable", "/enable", "/unlock", ""} {
		request, _ := http.NewRequest(http.MethodPost, home+"/card-gateway/keys/"+key.ID+change, strings.NewReader("{}"))
		if change == "" {
			request, _ = http.NewRequest(http.MethodPost, home+"/card-gateway/keys", strings.NewReader(`{"tenant":"x","scopes":["*"]}`))
		}
		request.Header.Set("Authorization", "Bearer "+viewer)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Errorf("a viewer's POST %q is answered %d", change, response.StatusCode)
		}
	}

	p.use(button("Sign out"))
	p.signIn(token)
	p.visit("keys/"+key.ID, "Live secrets")
	tokens := g.ReadFile("tokens")
	g.WriteFile("tokens", strings.Replace(tokens, "alice keys", "alice viewer", 1))
	site := g.Site
	p.use(button("Disable"))
	site.Global += "\nlock_after 40"
	g.Reload(site)
	p.use(answer("Disable"))
	p.see("the role viewer may only read; this needs a token of the role keys")
	p.press("Escape")
	p.use(button("Read again"))
	p.gone("[data-change]")
	g.WriteFile("tokens", strings.Replace(tokens, token, strings.Repeat("n", 40), 1))
	site.Global += "\ndocs_url https://docs.example/errors"
	g.Reload(site)
	p.see("admin_token has no such token", "opens to a token") // the page asks by itself
	harness.WantAccepted(t, g.Send(t, key.Get()))
}
