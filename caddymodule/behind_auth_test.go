package caddymodule

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	caddyheaders "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/self"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
	"github.com/card-gateway/card-gateway/headers"
)

func TestForwardsHost(t *testing.T) {
	with := func(ops *caddyheaders.HeaderOps) *reverseproxy.Handler {
		return &reverseproxy.Handler{Headers: &caddyheaders.Handler{Request: ops}}
	}
	for name, c := range map[string]struct {
		proxy *reverseproxy.Handler
		want  bool
	}{
		"nothing said":    {new(reverseproxy.Handler), true},
		"only answers":    {&reverseproxy.Handler{Headers: new(caddyheaders.Handler)}, true},
		"another header":  {with(&caddyheaders.HeaderOps{Set: http.Header{"X-A": {"1"}}}), true},
		"a name":          {with(&caddyheaders.HeaderOps{Set: http.Header{"host": {"issuer.internal"}}}), false},
		"the client's":    {with(&caddyheaders.HeaderOps{Set: http.Header{"Host": {"{http.request.host}"}}}), false},
		"none":            {with(&caddyheaders.HeaderOps{Delete: []string{"Host"}}), false},
		"TLS":             {&reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{TLS: new(reverseproxy.TLSConfig)}}, false},
		"without any TLS": {&reverseproxy.Handler{Transport: new(reverseproxy.HTTPTransport)}, true},
	} {
		if got := forwardsHost(c.proxy); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// card_auth prevents that net/http sends a request twice if a handler behind it
// might use net/http, and only then.
func TestMayRepeat(t *testing.T) {
	named := &issuer.Forward{Rule: headers.Rule{PassHeader: []string{"Forwarded"}}}
	if err := named.Prepare(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		behind []caddyhttp.MiddlewareHandler
		want   bool
	}{
		"card_forward alone":     {[]caddyhttp.MiddlewareHandler{new(translating.Translate), new(encode.Encode), named}, false},
		"reverse_proxy alone":    {[]caddyhttp.MiddlewareHandler{new(translating.Translate), &reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{TLS: new(reverseproxy.TLSConfig)}}}, true},
		"reverse_proxy by h2c":   {[]caddyhttp.MiddlewareHandler{&reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{Versions: []string{"h2c", "2"}}}}, false},
		"reverse_proxy by TLS":   {[]caddyhttp.MiddlewareHandler{&reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{Versions: []string{"h2c", "2"}, TLS: new(reverseproxy.TLSConfig)}}}, true},
		"both":                   {[]caddyhttp.MiddlewareHandler{named, &reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{TLS: new(reverseproxy.TLSConfig)}}}, true},
		"one that nobody knows":  {[]caddyhttp.MiddlewareHandler{issuerSees{}, named}, true},
		"nothing that we know":   {[]caddyhttp.MiddlewareHandler{issuerSees{}}, true},
		"inside another handler": {[]caddyhttp.MiddlewareHandler{&caddyhttp.Subroute{Routes: caddyhttp.RouteList{{Handlers: []caddyhttp.MiddlewareHandler{named}}}}}, false},
	} {
		h := new(Auth)
		h.site.telemetry = &telemetry{Reporter: request.Reporter{Log: zap.NewNop()}}
		h.site.server = &caddyhttp.Server{Routes: caddyhttp.RouteList{{Handlers: append([]caddyhttp.MiddlewareHandler{h}, c.behind...)}}}
		h.lookBehind()
		if h.site.downstream.mayRepeat != c.want {
			t.Errorf("%s: %v, want %v", name, h.site.downstream.mayRepeat, c.want)
		}
		header := http.Header{"Forwarded": {"for=1"}, "X-Real-Ip": {"1"}}
		aside, _ := h.Rule.Clean(header)
		if forwards := !strings.HasPrefix(name, "reverse_proxy") && name != "nothing that we know"; (len(aside) == 1) != forwards || len(header) != 0 {
			t.Errorf("%s: set aside %v, kept %v", name, aside, header)
		}
	}
}

// What the gateway answers itself is open to every key. So it must be closed
// wherever such a request could reach an issuer, and is then as any path that no
// operation names.
func TestOwnOperationsNeedASelfAlone(t *testing.T) {
	inside := &caddyhttp.Subroute{Routes: caddyhttp.RouteList{{Handlers: []caddyhttp.MiddlewareHandler{new(self.Self)}}}}
	for name, c := range map[string]struct {
		behind []caddyhttp.MiddlewareHandler
		want   bool
	}{
		"alone":                   {[]caddyhttp.MiddlewareHandler{new(self.Self)}, true},
		"in a handle block":       {[]caddyhttp.MiddlewareHandler{new(caddyheaders.Handler), new(encode.Encode), inside}, true},
		"none":                    {nil, false},
		"no self":                 {[]caddyhttp.MiddlewareHandler{new(issuer.Forward)}, false},
		"beside a card_forward":   {[]caddyhttp.MiddlewareHandler{new(self.Self), new(issuer.Forward)}, false},
		"behind a card_forward":   {[]caddyhttp.MiddlewareHandler{new(issuer.Forward), inside}, false},
		"beside a reverse_proxy":  {[]caddyhttp.MiddlewareHandler{inside, new(reverseproxy.Handler)}, false},
		"beside an unknown one":   {[]caddyhttp.MiddlewareHandler{issuerSees{}, new(self.Self)}, false},
		"beside a card_translate": {[]caddyhttp.MiddlewareHandler{new(translating.Translate), new(self.Self)}, true},
	} {
		h := new(Auth)
		server := &caddyhttp.Server{Routes: caddyhttp.RouteList{{Handlers: append([]caddyhttp.MiddlewareHandler{h}, c.behind...)}}}
		if got := downstreamOf(server, h).answersOwn; got != c.want {
			t.Errorf("%s: the own operations exist: %t, want %t", name, got, c.want)
		}
	}
}
