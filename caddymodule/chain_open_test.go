package caddymodule

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	"pgregory.net/rapid"
)

// A chainDrawing makes random sites, in which handlers are lost, repeated and
// misplaced.
type chainDrawing struct {
	*rapid.T
	named bool // for a named route, which has no named matchers and invokes none
}

func (d chainDrawing) pick(label string, from ...string) string {
	return rapid.SampledFrom(from).Draw(d.T, label)
}

// matcher returns a matcher for a directive, most often none.
func (d chainDrawing) matcher() string {
	if d.named {
		return ""
	}
	return d.pick("matcher", "", "", "", "", " /api/v1/*", " /api/v1/cards/*", " @sens", " @get", " @rest", " @set")
}

// directives returns a list of directives; inside is the level.
func (d chainDrawing) directives(level int) string {
	order := []string{"card_rate_limit", "card_auth", "reverse_proxy"}
	switch d.pick("mistake", "none", "none", "lose", "repeat", "swap") {
	case "lose":
		at := rapid.IntRange(0, 1).Draw(d.T, "lost")
		order = append(order[:at:at], order[at+1:]...)
	case "repeat":
		order = append([]string{d.pick("again", order...)}, order...)
	case "swap":
		order[0], order[1] = order[1], order[0]
	}
	var text strings.Builder
	for _, name := range order {
		switch m := d.matcher(); {
		case level < 2 && d.pick("wrapped", "no", "no", "no", "yes") == "yes":
			text.WriteString(d.pick("block", "handle", "route", "handle_path") + m + " {\n" + d.directives(level+1) + "}\n")
		case name == "reverse_proxy":
			if d.pick("before", "", "", "", "open", "set", "respond") == "open" {
				text.WriteString("card_open" + d.matcher() + "\n")
			}
			sends := "reverse_proxy" + m + " ISSUER\n"
			if !d.named && d.pick("sends", "itself", "itself", "itself", "invoke") == "invoke" {
				sends = "invoke" + m + " guard\n"
			}
			text.WriteString(sends)
		default:
			text.WriteString(name + m + "\n")
		}
		if d.pick("more", "", "", "", "header") == "header" {
			text.WriteString("request_header X-Set 1\n")
		}
	}
	return strings.NewReplacer("handle_path {", "handle {", "handle_path @get", "handle @get", "handle_path @rest", "handle @rest", "handle_path @sens", "handle @sens", "handle_path @set", "handle @set").Replace(text.String())
}

const drawnMatchers = "@get method GET\n@sens path *sensitive\n@rest not path /api/v1/*\n@set header X-Set 1\n"

// TestNoValidChainIsOpen draws configurations. An unsigned request under /api/v1/
// reaches the issuer in none that `validate` calls valid, except through card_open.
func TestNoValidChainIsOpen(t *testing.T) {
	var opened atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { opened.Add(1) }))
	defer issuer.Close()
	address := issuer.Listener.Addr().String()
	valid, refused := 0, 0
	t.Cleanup(func() { _ = caddy.Stop() })
	rapid.Check(t, func(r *rapid.T) {
		d := chainDrawing{T: r}
		dir := t.TempDir()
		socket := filepath.Join(dir, "s")
		site := drawnMatchers
		for range rapid.IntRange(1, 2).Draw(r, "blocks") {
			site += d.pick("outer", "handle", "route", "handle") + d.matcher() + " {\n" + d.directives(0) + "}\n"
		}
		if d.pick("errors", "no", "no", "yes") == "yes" {
			site += "handle_errors {\ncard_rate_limit\ncard_auth\nreverse_proxy ISSUER\n}\n"
		}
		guard := "&(guard) {\n" + d.pick("guard", "", "route {\n") + chainDrawing{T: r, named: true}.directives(2) + "}\n"
		if strings.Contains(guard, "route {") {
			guard += "}\n"
		}
		text := strings.ReplaceAll(guard+"http:// {\nbind unix/"+socket+"\n"+site+"}\n", "ISSUER", address)
		config := configFrom(t, "file "+filepath.Join(dir, "data"), "", text)
		if err := validated(t, config); err != nil {
			refused++
			return
		}
		valid++
		if err := caddy.Load([]byte(config), true); err != nil {
			r.Fatal(err, text)
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
		client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			for _, path := range []string{"/api/v1/cards", "/api/v1/cards/c1/sensitive", "/api/v1/x", "/API/V1/cards/1", "/other"} {
				for _, set := range []string{"", "1"} {
					request, _ := http.NewRequest(method, "http://gateway.example"+path, nil)
					request.Header.Set("X-Set", set)
					before := opened.Load()
					answer, err := client.Do(request)
					if err != nil {
						r.Fatal(err, text)
					}
					_ = answer.Body.Close()
					switch got := opened.Load() - before; {
					case got == 0:
					case path != "/other" && !strings.Contains(text, "card_open"):
						r.Fatalf("%s %s has reached the issuer unsigned\n%s", method, path, text)
					}
				}
			}
		}
	})
	if valid == 0 || refused == 0 {
		t.Errorf("%d configurations are valid, %d refused: the drawing shows nothing", valid, refused)
	}
	t.Logf("%d valid, %d refused", valid, refused)
}
