// Package issuer is the handler card_forward, which sends a request to one of the
// issuers, at most once, and returns the answer.
//
// Begin with [Forward]: its options, then ServeHTTP. Its part of the Caddyfile is in
// options, the request that an issuer gets in outgoing. Package forward has the
// connections.
package issuer

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/forward"
	"github.com/card-gateway/card-gateway/headers"
)

// Forward is the handler card_forward. It sends the request to one of the
// issuers, over HTTP/1.1 and at most once, and returns the answer. It replaces
// Caddy's reverse_proxy and needs card_auth before it.
//
// A request goes to another issuer only if no byte of it was sent, because no
// connection could be made. After that it is never repeated.
type Forward struct {
	// The Issuers: `host:port`, or `unix/` and the path of a socket; 1 to 64.
	// Placeholders are expanded.
	Issuers []string `json:"issuers"`

	// How an issuer is chosen among those that are not out: `least` (of two
	// random ones, the one with fewer outstanding requests), `round_robin`, or
	// `first` (the first of the list). Default: least.
	Policy string `json:"policy,omitempty"`

	// The longest time for a new connection with its TLS handshake, and for the
	// wait until a connection is free. Default: 3s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`

	// How long the issuer may take for the head of its answer, and to read each
	// 256 KiB of a body. Default: 30s.
	AnswerTimeout caddy.Duration `json:"answer_timeout,omitempty"`

	// How long an unused connection is kept. It must be shorter than the
	// issuer's own time. Otherwise a request fails if the issuer closes the
	// connection at the same moment. Default: 45s.
	KeepAlive caddy.Duration `json:"keepalive,omitempty"`

	// The most connections to each issuer. One tenant uses half of them, or seven eighths
	// while no other tenant asks. Requests without a connection wait for up to
	// dial_timeout and are then answered with 503. Default: no limit.
	MaxConnections int `json:"max_connections,omitempty"`

	// The Host that the issuer receives. `{client}` is the client's Host, which
	// is not signed. Default: the issuer's own name.
	Host string `json:"host,omitempty"`

	// How connections to the issuers are secured. Default: not at all.
	TLS *ForwardTLS `json:"tls,omitempty"`

	// How long an issuer is out after fail_after failures within that time. A
	// failure is a connection that cannot be made, a connection that breaks, or
	// an answer that cannot be read. Default: 10s.
	FailFor caddy.Duration `json:"fail_for,omitempty"`

	// How many failures take an issuer out; -1: failures never do. Default: 3.
	FailAfter int `json:"fail_after,omitempty"`

	// Check at intervals whether each issuer works. Default: no checks.
	Check *ForwardCheck `json:"check,omitempty"`

	// The headers that reach these issuers in addition to those that card_auth
	// passes, or only some of those.
	headers.Rule

	unjudged  request.Unjudged
	poolKey   string // of the forwarder in the pool; empty until it is taken
	forwarder *forward.Forwarder
}

// ForwardTLS is how connections to the issuers are secured.
type ForwardTLS struct {
	// A file with the authorities, in PEM, that may sign an issuer's
	// certificate. Default: those of the system.
	CAFile string `json:"ca_file,omitempty"`
	// The name that the certificate must have. Default: the host of the
	// issuer's address.
	ServerName string `json:"server_name,omitempty"`
	// Files with the client certificate and its key, in PEM; both or neither.
	// A change of the files applies to the next connection. Default: none.
	Certificate string `json:"client_certificate,omitempty"`
	Key         string `json:"client_key,omitempty"`
	// The lowest version: `tls1.2` or `tls1.3`. Default: tls1.2.
	Min string `json:"min,omitempty"`
}

// ForwardCheck requests a path from each issuer. An issuer that does not answer
// with a status from 200 to 299 within 3 s is out until it does.
type ForwardCheck struct {
	// The Path, which begins with a slash.
	Path string `json:"path"`
	// How often; at least 1s. Default: 5s.
	Every caddy.Duration `json:"every,omitempty"`
}

// clientHost is the value of the option host for the Host that the client wrote.
const clientHost = "{client}"

// CaddyModule returns the Caddy module information.
func (*Forward) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_forward", New: func() caddy.Module { return new(Forward) }}
}

func (h *Forward) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	info := request.From(r.Context())
	if info == nil {
		return h.unjudged.Misplaced(w, r, "card_forward")
	}
	out := newOutgoing()
	defer out.free()
	if out.Host = h.Host; h.Host == clientHost {
		out.Host = r.Host
	}
	if refusal := out.fill(r, info, &h.Rule); refusal != nil {
		return refusal
	}
	answer, err := h.forwarder.Do(r.Context(), &out.Request)
	info.Body.Release() // it is no longer read
	info.Spans.Issuer.Set("card_gateway.issuer", issuerOf(answer, err))
	if err != nil {
		return forwardRefusal(err)
	}
	sendAnswer(w, answer)
	return nil
}

// Interface guard
var _ caddy.CleanerUpper = (*Forward)(nil)
