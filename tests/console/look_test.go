package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// looks are the widths and schemes in which every page must be readable: 320 is
// the narrowest of WCAG 1.4.10, which is also a wide screen at 400%.
var looks = []struct {
	scheme string
	width  int
}{{"light", 320}, {"dark", 400}, {"dark", 800}, {"light", 1280}}

// dress sets the width of the page and the scheme that its user prefers.
func (p *page) dress(scheme string, width int) {
	p.t.Helper()
	p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// faults is a function of the page. It returns what an eye would find: texts whose
// contrast is below WCAG AA (1.4.3), edges of controls and the focus ring below 3 to
// 1 (1.4.11), what is cut off or makes the page scroll sideways (1.4.10), controls
// that are smaller than 24 pixels (2.5.8) or have no name (4.1.2).
const faults = `(() => {
	const found = [];
	const levels = (c) => (c.match(/[\d.]+/g) || []).map(Number);
	const light = ([r, g, b]) => [r, g, b].map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4).reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
	const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = levels(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return levels(getComputedStyle(document.body).backgroundColor); };
	const seen = (e) => e.checkVisibility({ checkVisibilityCSS: true }) && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().right > 0;
	const name = (e) => e.tagName.toLowerCase() + (e.id ? '#' + e.id : '') + (e.className ? '.' + e.className : '') + ' "' + (e.textContent || e.value || '').trim().slice(0, 30) + '"';
	const view = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth > view) found.push('the page scrolls sideways: ' + document.documentElement.scrollWidth + ' of ' + view);
	for (const e of document.body.querySelectorAll('*')) {
		if (!seen(e)) continue;
		const style = getComputedStyle(e), box = e.getBoundingClientRect();
		if (box.right > view + 1) found.push('cut off at the right: ' + name(e));
		if (style.overflowX !== 'visible' && e.scrollWidth > e.clientWidth + 1 && !e.matches('input, select')) found.push('scrolls by itself: ' + name(e));
		const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (text && contrast(levels(style.color), ground(e)) < 4.5) found.push('contrast of text ' + contrast(levels(style.color), ground(e)).toFixed(2) + ': ' + name(e));
		if (e.matches('td')) { const before = getComputedStyle(e, '::before'); if (before.content !== 'none' && contrast(levels(before.color), ground(e)) < 4.5) found.push('contrast of a label: ' + name(e)); }
		if (!e.matches('input, select, button, summary, nav a')) continue;
		if (e.matches('input, select, button') && contrast(levels(style.borderTopColor), ground(e.parentElement)) < 3) found.push('contrast of the edge: ' + name(e));
		if (e.matches('[placeholder]') && contrast(levels(getComputedStyle(e, '::placeholder').color), ground(e)) < 4.5) found.push('contrast of the placeholder: ' + name(e));
		if (box.height < 24 || box.width < 24) found.push('too small: ' + name(e));
		if (!e.textContent.trim() && !(e.labels && e.labels.length) && !e.ariaLabel) found.push('no name: ' + name(e));
	}
	const at = document.activeElement, ring = at && at.matches('input, select, button, summary, a') && getComputedStyle(at);
	if (ring && (ring.outlineStyle === 'none' || parseFloat(ring.outlineWidth) < 2 || contrast(levels(ring.outlineColor), ground(at.parentElement)) < 3)) found.push('the focus is hard to see: ' + name(at));
	return found.join('\n');
})()`

// look checks what is shown now in every width and scheme.
func (p *page) look(what string) {
	p.t.Helper()
	for _, l := range looks {
		p.dress(l.scheme, l.width)
		if found := p.eval(faults); found != "" {
			p.t.Errorf("%s, %s, %d pixels wide:\n%s", what, l.scheme, l.width, found)
		}
	}
}

// TestLook has every page and every state of it on narrow and wide screens, light
// and dark: keys in every status, texts as long as they may be, a drained gateway
// whose configuration was refused, dialogs, refused changes, Redis down, and the
// gateway gone.
func TestLook(t *testing.T) {
	t.Parallel()
	chromium(t)
	server := harness.StartRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := newScene(t, server.Patient())
	site := s.Site
	site.Global = ""
	if err := s.TryReload(site); err == nil {
		t.Fatal("a configuration without tokens was loaded")
	}
	s.Admin("POST", "/card-gateway/drain", "application/json", "{}")
	p := openPage(t, s.home, path)
	p.see("opens to a token")
	p.look("the first page")
	p.signIn(strings.Repeat("x", 40))
	p.see("admin_token has no such token", "the last word of its line")
	p.look("a wrong token")
	p.signIn(token)
	p.see("Overview", "out of service", "The last configuration was refused", "no maxmemory", "1 key is locked", "will expire within a day", "256 MiB")
	p.look("the overview")
	if got := p.eval("[...document.querySelectorAll('.attention li')].filter((e) => !/^https:.*[/]runbooks[/][a-z-]+[.]md$/.test(e.querySelector('a[target=_blank]')?.href)).map((e) => e.textContent)"); got != "" {
		t.Errorf("without a runbook: %s", got)
	}

	p.use("e.textContent === 'Keys'")
	p.see("5 keys", "northern.bank")
	p.use("e.textContent === 'Make a key'")
	p.tabTo("e.id === 'new-tenant'")
	p.write("x")
	p.tabTo("e.id === 'new-scopes'")
	p.write("none")
	p.press("Enter")
	p.see(`bad scope "none"`)
	p.look("the keys, and a refused form")
	p.use("e.textContent === 'Refusals'")
	p.see("Last refusals", "scope_missing", s.stuck.ID)
	p.look("the refusals")

	p.visit("keys/"+s.busy.ID, "Live secrets", "36 of 40", "cards:write")
	p.use("e.tagName === 'SUMMARY' && e.textContent.startsWith('401')")
	p.use("e.textContent === 'All limits'")
	p.look("a key with a refusal")
	p.use("e.textContent === 'Rotate'")
	p.see("For how long")
	p.look("the question for a time")
	p.press("Escape")
	p.visit("keys/"+longID, "Live secrets", "Each text is as long as it may be")
	p.look("a key with long texts")
	p.visit("keys/"+s.stuck.ID, "after 2 failures in a row, until an operator unlocks it")
	p.look("a locked key")
	p.visit("keys/none", `"none": no such key`, "All keys")
	p.look("no key")

	server.Kill()
	p.use(button("Read again"))
	p.see("The gateway is not ready", "may be old")
	p.visit("keys", "The keys cannot be read now", "The list below is of", "northern.bank")
	p.look("the keys without a store")
	p.visit("", "Overview", "The keys cannot be counted")
	p.look("the overview without a store")
	s.Kill()
	p.use(button("Read again"))
	p.see("The gateway does not answer", "asked again every 5 seconds", "was known at")
	p.look("the gateway is gone")
}

// visit opens a page of the console, and waits until it shows all the words.
func (p *page) visit(where string, words ...string) {
	p.t.Helper()
	p.eval(fmt.Sprintf("location.hash = '#/%s'", where))
	p.see(words...)
}
