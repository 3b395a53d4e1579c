package caddymodule

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func TestForwardsHost(t *testing.T) {
	with := func(ops *headers.HeaderOps) *reverseproxy.Handler {
		return &reverseproxy.Handler{Headers: &headers.Handler{Request: ops}}
	}
	for name, c := range map[string]struct {
		proxy *reverseproxy.Handler
		want  bool
	}{
		"nothing said":    {new(reverseproxy.Handler), true},
		"only answers":    {&reverseproxy.Handler{Headers: new(headers.Handler)}, true},
		"another header":  {with(&headers.HeaderOps{Set: http.Header{"X-A": {"1"}}}), true},
		"a name":          {with(&headers.HeaderOps{Set: http.Header{"host": {"issuer.internal"}}}), false},
		"the client's":    {with(&headers.HeaderOps{Set: http.Header{"Host": {"{http.request.host}"}}}), false},
		"none":            {with(&headers.HeaderOps{Delete: []string{"Host"}}), false},
		"TLS":             {&reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{TLS: new(reverseproxy.TLSConfig)}}, false},
		"without any TLS": {&reverseproxy.Handler{Transport: new(reverseproxy.HTTPTransport)}, true},
	} {
		if got := forwardsHost(c.proxy); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Requests are kept from being sent twice by net/http wherever a handler behind
// might use it, and only there.
func TestMayRepeat(t *testing.T) {
	named := &Forward{HeaderRule: HeaderRule{named: map[string]bool{"Forwarded": true}}}
	for name, c := range map[string]struct {
		behind []caddyhttp.MiddlewareHandler
		want   bool
	}{
		"card_forward alone":     {[]caddyhttp.MiddlewareHandler{new(Translate), new(encode.Encode), named}, false},
		"reverse_proxy alone":    {[]caddyhttp.MiddlewareHandler{new(Translate), &reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{TLS: new(reverseproxy.TLSConfig)}}}, true},
		"both":                   {[]caddyhttp.MiddlewareHandler{named, &reverseproxy.Handler{Transport: &reverseproxy.HTTPTransport{TLS: new(reverseproxy.TLSConfig)}}}, true},
		"one that nobody knows":  {[]caddyhttp.MiddlewareHandler{issuerSees{}, named}, true},
		"nothing that we know":   {[]caddyhttp.MiddlewareHandler{issuerSees{}}, true},
		"inside another handler": {[]caddyhttp.MiddlewareHandler{&caddyhttp.Subroute{Routes: caddyhttp.RouteList{{Handlers: []caddyhttp.MiddlewareHandler{named}}}}}, false},
	} {
		h := new(Auth)
		h.site.server = &caddyhttp.Server{Routes: caddyhttp.RouteList{{Handlers: append([]caddyhttp.MiddlewareHandler{h}, c.behind...)}}}
		h.lookBehind()
		if h.site.behind.mayRepeat != c.want {
			t.Errorf("%s: %v, want %v", name, h.site.behind.mayRepeat, c.want)
		}
		header := http.Header{"Forwarded": {"for=1"}, "X-Real-Ip": {"1"}}
		aside := h.HeaderRule.clean(header)
		if forwards := name != "reverse_proxy alone" && name != "nothing that we know"; (len(aside) == 1) != forwards || len(header) != 0 {
			t.Errorf("%s: set aside %v, kept %v", name, aside, header)
		}
	}
}
