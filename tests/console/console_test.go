package console

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const (
	token  = "0123456789abcdef0123456789abcdef"
	viewer = "fedcba9876543210fedcba9876543210"
	path   = "/card-gateway/console/"
)

// start runs a gateway with the console on its site, in the options given.
func start(t *testing.T, store, options string) (g *harness.Gateway, home string) {
	t.Helper()
	g = harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr, Limits: harness.WithLimits, Store: store})
	g.WriteFile("tokens", "alice keys "+token+"\nbob viewer "+viewer+"\n")
	g.Site.Global = "limit get_card 50/1d\nadmin_token file " + g.Path("tokens")
	g.Site.Extra = "handle /card-gateway/* {\ncard_console {\n" + options + "\n}\n}\n"
	g.Start()
	return g, "http://" + g.Addr
}

// signIn types a token.
func (p *page) signIn(token string) {
	p.t.Helper()
	p.see("opens to a token")
	p.tabTo("e.id === 'token'")
	p.write(token)
	p.press("Enter")
}

// TestKeyboard works with the console by the keyboard alone: a wrong token is
// told, a key is made and its secret shown once, found by its tenant, disabled,
// and its page shows a refusal with its finding. What others wrote, in
// descriptions and targets, stays text.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	g, home := start(t, "", "changes")
	const hostile = `<img src=x onerror="document.title='taken'">`
	refused := g.NewKey(harness.Fields{"tenant": "hostile", "description": hostile})
	r := refused.Get()
	r.Target += "?q=%3Cb%3E&changed=1" // after it was signed
	harness.WantUnauthorized(t, g.Send(t, r), harness.WrongSignature)
	harness.WantAccepted(t, g.Send(t, refused.Get()))

	p := openPage(t, home, path)
	p.signIn(strings.Repeat("x", 40))
	p.see("admin_token has no such token")
	p.signIn(token)
	p.see("alice (may change keys)", "Overview", "signature_mismatch", "hostile")

	p.use("e.textContent === 'Keys'")
	p.see("Part of an id", hostile)
	p.use("e.textContent === 'Make a key'")
	for _, f := range [][2]string{{"new-tenant", "northern.bank"}, {"new-scopes", "cards:read"}, {"new-description", "made here"}} {
		p.tabTo("e.id === '" + f[0] + "'")
		p.write(f[1])
	}
	p.press("Enter")
	text := p.see("The secret, shown this once", "It is text: its characters are the secret")
	made := g.Made(harness.Credentials{ID: p.eval("document.querySelector('dialog code').textContent"), Secret: p.eval("document.getElementById('secret').textContent")})
	if !strings.Contains(text, made.Secret) || len(made.Secret) < 32 {
		t.Errorf("no secret is shown:\n%s", text)
	}
	harness.WantAccepted(t, g.Send(t, made.Get()))
	p.press("Escape")
	p.see(made.ID, "northern.bank")
	if all := p.eval("document.documentElement.outerHTML"); strings.Contains(all, made.Secret) {
		t.Error("the secret is in the page after its dialog was closed")
	}

	p.tabTo("e.id === 'search'")
	p.write("NORTHERN")
	p.press("Enter")
	if text := p.see("1 key,"); strings.Contains(text, hostile) || !strings.Contains(text, made.ID) {
		t.Errorf("the search finds\n%s", text)
	}
	p.use("e.textContent === '" + made.ID + "'")
	p.see("Key "+made.ID, "cards:read", "Live secrets")
	p.use("e.textContent === 'Disable'")
	p.see("Disable the key?")
	p.use("e.textContent === 'Disable' && !!e.closest('dialog')")
	p.see("Enable", "disabled")
	harness.WantUnauthorized(t, g.Send(t, made.Get()), harness.KeyDisabled)

	p.eval("location.hash = '#/keys/" + refused.ID + "'")
	p.see("Key "+refused.ID, "401 signature_mismatch", "Used limits", "get_card")
	p.use("e.tagName === 'SUMMARY' && e.textContent.startsWith('401')")
	p.see("Findings", "String to sign")
	if images := p.eval("document.querySelectorAll('img, script:not([src])').length + document.title"); !strings.HasPrefix(images, "0Key") {
		t.Errorf("a description became HTML: %s", images)
	}
}

// TestList has more keys than a list shows at once: it says how many there are, and is
// sorted by the headings, by the keyboard and before and after more were read.
func TestList(t *testing.T) {
	t.Parallel()
	chromium(t)
	g, home := start(t, "", "")
	for i := range 102 {
		g.NewKey(harness.Fields{"tenant": fmt.Sprintf("bank-%03d", (i*7)%102)}) // a bijection: 7 and 102 have no common divisor
	}
	p := openPage(t, home, path)
	p.signIn(token)
	p.see("Overview")
	p.visit("keys", "100 of 102 keys,")
	tenants := func() string {
		return p.eval("[...document.querySelectorAll('td[data-label=Tenant]')].map((e) => e.textContent)")
	}
	sorted := func(way string) {
		t.Helper()
		harness.Eventually(t, "the list is sorted "+way, func() bool {
			return p.eval("document.querySelector('th[aria-sort="+way+"]')?.textContent + document.activeElement.textContent") == "TenantTenant"
		})
		all := strings.Split(tenants(), ",")
		if way == "descending" {
			slices.Reverse(all)
		}
		if !slices.IsSorted(all) {
			t.Errorf("%s: %q", way, all)
		}
	}
	p.use(button("Tenant"))
	sorted("ascending")
	p.see("sorted are those that were read")
	p.press("Enter")
	sorted("descending")
	p.use(button("Read further"))
	p.gone("#more")
	if text := p.see("102 keys,"); strings.Contains(text, "those that were read") {
		t.Errorf("more keys follow:\n%s", text)
	}
	p.use(button("Tenant"))
	sorted("ascending")
	if all := tenants(); !strings.HasPrefix(all, "bank-000,bank-001") || !strings.HasSuffix(all, "bank-100,bank-101") {
		t.Errorf("the list has %s", all)
	}
}

// TestLastMinutes shows what was done in the last minutes: its plots say in words what they
// show, and a key that was refused is there with its refusals.
func TestLastMinutes(t *testing.T) {
	t.Parallel()
	chromium(t)
	g, home := start(t, "", "")
	key := g.NewKey(nil)
	p := openPage(t, home, path)
	p.signIn(viewer)
	p.see(g.Site.Upstream+": in, answers 0/s", "no answer", "No key was refused in the last 15 minutes")
	for range 20 {
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
	for _, r := range key.Forged(3) {
		g.Send(t, r)
	}
	p.gone("path.p50:not([d^=M])")
	plots := p.eval("[...document.querySelectorAll('svg[role=img]')].map((e) => e.ariaLabel).join(' | ')")
	for _, want := range []string{`Requests a second, the last 15 minutes\. Now: accepted [0-9.]+/s, refused \(4xx\) [0-9.]+/s, failed \(5xx\) 0/s`, `Time until ` + regexp.QuoteMeta(g.Site.Upstream) + `.*p50 [0-9.]+ m?s, p99 [0-9.]+ m?s`} {
		if !regexp.MustCompile(want).MatchString(plots) {
			t.Errorf("no plot says %s:\n%s", want, plots)
		}
	}
	if got := p.eval("[...document.querySelectorAll('path.accepted, path.refused, path.p50, path.p99')].map((e) => e.getAttribute('d').startsWith('M'))"); strings.Contains(got, "false") {
		t.Errorf("lines that are drawn: %s", got)
	}
	if got := p.eval("[...document.querySelectorAll('.bars rect')].filter((e) => e.getAttribute('height') > 0).length"); got == "0" {
		t.Error("no refusal of the key is drawn")
	}
	p.look("the last minutes")
}

// TestReadOnly has a console without changes, and the token of a viewer: neither
// shows a way to change a key, and a call by hand is refused.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	g, home := start(t, "", "")
	key := g.NewKey(nil)
	for _, with := range []string{token, viewer} {
		p := openPage(t, home, path+"#/keys/"+key.ID)
		p.signIn(with)
		if text := p.see("may only read", "Live secrets"); strings.Contains(text, "Disable") || strings.Contains(text, "Rotate") {
			t.Errorf("a reader is offered changes:\n%s", text)
		}
		request, _ := http.NewRequest(http.MethodPost, home+"/card-gateway/keys/"+key.ID+"/disable", nil)
		request.Header.Set("Authorization", "Bearer "+with)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("a reader's change is answered %d", answer.StatusCode)
		}
	}
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestStoreDown kills Redis while the console is open: it says so, and shows what
// it knew.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	server := harness.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	g, home := start(t, server.Patient(), "")
	key := g.NewKey(harness.Fields{"tenant": "known.before"})
	harness.WantAccepted(t, g.Send(t, key.Get()))
	p := openPage(t, home, path)
	p.signIn(viewer)
	p.see("Redis masters", "Gateways on this store")
	p.eval("location.hash = '#/keys'")
	p.see("known.before")
	server.Kill()
	p.use(button("Read again"))
	p.see("The gateway is not ready")
	p.use("e.textContent === 'Search'")
	p.see("The keys cannot be read now", "The list below is of", "known.before")
	p.eval("location.hash = '#/'")
	p.see("Overview", "They are not counted")
	server.Start()
	harness.Eventually(t, "the console sees the store again", func() bool {
		p.use(button("Read again"))
		return p.eval("document.getElementById('state').hidden") == "true" && strings.Contains(p.see("Store"), "answers")
	})
}

// TestAdminEndpoint opens the console on Caddy's admin endpoint on TCP. Caddy
// refuses a page that is opened by its address, unless the empty origin is allowed.
func TestAdminEndpoint(t *testing.T) {
	t.Parallel()
	for _, opens := range []bool{true, false} {
		g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
		address := harness.FreeAddress(t)
		g.WriteFile("tokens", "alice keys "+token+"\n")
		g.Site.Global = "admin_token file " + g.Path("tokens")
		g.Start()
		admin := "admin " + address
		if opens {
			admin += " {\norigins " + address + " \"\"\n}"
		}
		g.WriteFile("Caddyfile.tcp", strings.Replace(g.Caddyfile(), "admin unix/"+g.Dir+"/admin.sock", admin, 1))
		if out, err := g.Command("reload", "--config", g.Path("Caddyfile.tcp"), "--adapter", "caddyfile", "--address", "unix/"+g.Path("admin.sock")).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		p := openPage(t, "http://"+address, path)
		if !opens {
			p.see("client is not allowed to access from origin")
			continue
		}
		p.signIn(token)
		p.see("alice (may change keys)", "Overview")
	}
}

// TestSite has what only a request by hand shows: without tokens the console is
// refused, other paths are not its own, and a page of another origin is told
// nothing.
func TestSite(t *testing.T) {
	t.Parallel()
	g, home := start(t, "", "changes")
	for target, want := range map[string]int{
		path: http.StatusOK, "/card-gateway/keys": http.StatusUnauthorized, "/card-gateway/drain": http.StatusNotFound, "/card-gateway/nothing": http.StatusNotFound,
	} {
		request, _ := http.NewRequest(http.MethodGet, home+target, nil)
		request.Header.Set("Origin", "http://elsewhere.example")
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want || answer.Header.Get("Access-Control-Allow-Origin") != "" || answer.Header.Get("Cache-Control") != "no-store" && target == path {
			t.Errorf("%s: %d %v %s", target, answer.StatusCode, answer.Header, text)
		}
	}
	site := g.Site
	site.Global = ""
	if err := g.TryReload(site); err == nil || !strings.Contains(err.Error(), "admin_token file PATH") {
		t.Errorf("a console without tokens: %v", err)
	}
}
