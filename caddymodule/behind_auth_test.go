package caddymodule

import (
	"net/http"
	"testing"

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
