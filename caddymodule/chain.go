package caddymodule

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
	"github.com/card-gateway/card-gateway/caddymodule/directive"
	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/routes"
	"github.com/card-gateway/card-gateway/caddymodule/self"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
	"github.com/card-gateway/card-gateway/headers"
)

// An orderCheck refuses servers whose routes are certainly a mistake or open, and
// warns of those whose routes are probably a mistake.
type orderCheck struct {
	rateLimits bool // the app has limits of its own
	log        *zap.Logger
	checked    map[*caddyhttp.Server]bool
}

// server checks a server once: when the first of its handlers is loaded, so that
// `validate` reports mistakes too.
func (c *orderCheck) server(server *caddyhttp.Server) error {
	if server == nil || c.checked[server] {
		return nil
	}
	if c.checked == nil {
		c.checked = make(map[*caddyhttp.Server]bool)
	}
	c.checked[server] = true
	return newServerCheck(c, server).run(server)
}

// allServers checks the servers that have no handler of the gateway. They are
// known only when the app starts.
func (c *orderCheck) allServers(ctx caddy.Context) error {
	app, err := ctx.AppIfConfigured("http")
	if err != nil {
		return nil //nolint:nilerr // there is no server
	}
	if app, ok := app.(*caddyhttp.App); ok {
		for _, server := range app.Servers {
			err = errors.Join(err, c.server(server))
		}
	}
	return err
}

// A serverCheck is the check of one server.
type serverCheck struct {
	*orderCheck
	walk routes.Walk

	ours     map[string]bool       // the sites with handlers of the gateway
	limits   map[*routes.Step]bool // each card_rate_limit: a card_auth charges its limits
	open     []openProxy
	refused  []error
	reported map[string]bool
}

// An openProxy is a reverse_proxy that requests to the API may reach unjudged.
type openProxy struct {
	site  string
	named bool // a path matcher names the API
	fatal bool // unless no handler of the gateway is in the site
}

func newServerCheck(c *orderCheck, server *caddyhttp.Server) *serverCheck {
	check := &serverCheck{orderCheck: c, ours: make(map[string]bool), limits: make(map[*routes.Step]bool), reported: make(map[string]bool)}
	check.walk = routes.Walk{
		Server: server, Visit: check.step,
		Note: func(s *routes.Step) bool { return strings.HasPrefix(s.Name, "card_") },
	}
	return check
}

func (c *serverCheck) run(server *caddyhttp.Server) error {
	unanswered, err := c.walk.Routes()
	if err != nil {
		return err
	}
	for _, charged := range c.limits {
		if !charged {
			c.refuse("a card_rate_limit has no card_auth behind it: nothing is judged and nothing is limited there; write card_auth behind it" + wrapHint)
		}
	}
	for _, proxy := range c.open {
		site := cmp.Or(proxy.site, "of any host")
		switch ours := c.ours[proxy.site]; {
		case ours && proxy.fatal:
			c.refuse("a reverse_proxy of the site " + site + " may get requests under /api/v1/ that no card_auth has judged; write card_rate_limit and card_auth in front of it, keep /api/v1/* from it by a path matcher, or, if anybody may reach it, write card_open in front of it" + wrapHint)
		case ours || proxy.named:
			c.warn("a reverse_proxy of the site " + site + " takes requests under /api/v1/ that no card_auth has judged; write card_auth in front of it")
		}
	}
	if len(c.refused) == 0 && slices.ContainsFunc(unanswered, func(f routes.Flow) bool { return f.Unsure == 0 && has(&f, "card_auth") }) {
		c.warn("no handler answers the requests that a card_auth lets pass; write card_forward or reverse_proxy behind it")
	}
	if len(c.ours) > 0 {
		c.trusted(server)
	}
	return errors.Join(c.refused...)
}

// wrapHint is for named routes, of which Caddy keeps one directive.
const wrapHint = " (of a named route, &(name), Caddy keeps only the first directive: write route { } around several)"

// refuse adds a mistake, once.
func (c *serverCheck) refuse(text string) {
	if !c.reported[text] {
		c.refused = append(c.refused, cardlog.PlainError(text))
	}
	c.reported[text] = true
}

// warn logs a probable mistake, once.
func (c *serverCheck) warn(text string) {
	if !c.reported[text] {
		c.log.Warn(text)
	}
	c.reported[text] = true
}

// step checks a handler by what requests have passed before it.
func (c *serverCheck) step(s *routes.Step, flows []routes.Flow) {
	if strings.HasPrefix(s.Name, "card_") {
		c.ours[s.Site] = true
	}
	if len(flows) == 0 {
		return // no request reaches it
	}
	some := func(name string) bool {
		return slices.ContainsFunc(flows, func(f routes.Flow) bool { return has(&f, name) })
	}
	all := func(name string) bool {
		return !slices.ContainsFunc(flows, func(f routes.Flow) bool { return !has(&f, name) })
	}
	switch s.Name {
	case "card_auth":
		c.auth(flows)
		if some("card_translate") {
			c.refuse("card_translate comes before card_auth, and must not see a request that is not judged; write card_rate_limit, card_auth, card_translate in this order")
		}
		if c.rateLimits && !some("card_rate_limit") {
			c.refuse("limits are configured, and a card_auth has no card_rate_limit in front of it: nothing is limited there; write card_rate_limit before card_auth" + wrapHint)
		}
	case "card_rate_limit":
		c.limits[s] = false // no card_auth has come yet
		if slices.ContainsFunc(flows, func(f routes.Flow) bool { return certainly(&f, "card_auth") }) {
			c.refuse(string(errLimitsLate))
		}
	case "card_translate", "card_forward", "card_self":
		if !all("card_auth") {
			c.refuse(s.Name + " has no card_auth in front of it for some or all of the requests that it gets, and would answer 500 to them; write card_rate_limit, card_auth, card_translate, card_forward in this order, under the same matchers" + wrapHint)
		}
	case "reverse_proxy":
		c.proxy(s, flows)
	}
}

// auth checks a card_auth by those that requests have passed before, and notes
// which limits it charges.
func (c *serverCheck) auth(flows []routes.Flow) {
	for i := range flows {
		if certainly(&flows[i], "card_auth") {
			c.refuse("two card_auth handle one request: the second finds the nonce spent by the first and refuses it; keep one of them")
		}
		for _, passed := range flows[i].Passed {
			if passed.Name == "card_rate_limit" {
				c.limits[passed.Step] = true
			}
		}
	}
}

// proxy notes whether a reverse_proxy may get requests to the API unjudged, and
// warns of retries behind a card_auth.
func (c *serverCheck) proxy(s *routes.Step, flows []routes.Flow) {
	for i := range flows {
		f := &flows[i]
		switch {
		case has(f, "card_auth"):
			if dial := notAddress(s); dial != "" {
				c.refuse("a reverse_proxy behind card_auth has the upstream " + dial + ", which is not an address: write host:port, and change paths by rewrite")
			}
			if repeats(s) {
				c.warn("a reverse_proxy behind card_auth has lb_retries or lb_try_duration: they have no effect, because a request is sent to the issuer at most once; remove them")
			}
		case !has(f, "card_open") && f.Reaches("/api/v1/*"):
			c.open = append(c.open, openProxy{site: s.Site, named: f.Names("/api/v1"), fatal: !f.Failed && !asksOnly(s)})
		}
	}
}

// has reports whether requests have passed a handler of the name.
func has(f *routes.Flow, name string) bool {
	return slices.ContainsFunc(f.Passed, func(p routes.Passed) bool { return p.Name == name })
}

// certainly reports whether a request has passed a handler of the name before. It
// returns false if both may be for different requests: two matchers that are not
// evaluated may exclude each other.
func certainly(f *routes.Flow, name string) bool {
	return slices.ContainsFunc(f.Passed, func(p routes.Passed) bool {
		return p.Name == name && (p.Unsure == 0 || p.Unsure == f.Unsure)
	})
}

// proxyOptions returns the options of a reverse_proxy, loaded or not.
func proxyOptions(s *routes.Step) *reverseproxy.Handler {
	if proxy, ok := s.Loaded.(*reverseproxy.Handler); ok {
		return proxy
	}
	proxy := new(reverseproxy.Handler)
	_ = json.Unmarshal(s.Raw, proxy) // Caddy itself reports what is wrong
	return proxy
}

// notAddress returns an upstream of a reverse_proxy of which Caddy would take the part
// before a slash for a network, as with a path behind the port; "" if there is none.
func notAddress(s *routes.Step) string {
	for _, upstream := range proxyOptions(s).Upstreams {
		network, _, _, err := caddy.SplitNetworkAddress(upstream.Dial)
		known := network == "" || strings.HasPrefix(network, "tcp") || strings.HasPrefix(network, "unix") || strings.Contains(upstream.Dial, "{")
		if err != nil || !known {
			return upstream.Dial
		}
	}
	return ""
}

// asksOnly reports whether a reverse_proxy asks another server about a request, as
// forward_auth does: it sends a GET of a fixed address, and goes on.
func asksOnly(s *routes.Step) bool {
	proxy := proxyOptions(s)
	return len(proxy.HandleResponse) > 0 && proxy.Rewrite != nil && proxy.Rewrite.Method == http.MethodGet &&
		proxy.Rewrite.URI != "" && !strings.Contains(proxy.Rewrite.URI, "{")
}

// repeats reports whether a reverse_proxy is configured to send a request
// again.
func repeats(s *routes.Step) bool {
	balancing := proxyOptions(s).LoadBalancing
	return balancing != nil && (balancing.Retries > 0 || balancing.TryDuration > 0)
}

// trusted warns of trusted proxies that are whole private networks: each machine
// in them can choose the address that IP whitelists see.
func (c *orderCheck) trusted(server *caddyhttp.Server) {
	wide := netip.MustParsePrefix("10.0.0.0/8") // one of those that private_ranges stands for
	if _, fixed, _ := peek.TrustedProxies(server); slices.Contains(fixed, wide) {
		c.log.Warn("trusted_proxies holds " + wide.String() + ", as private_ranges does: every machine there can choose the address that IP whitelists see; name the addresses of your load balancers")
	}
}

// downstream is what follows a card_auth in its site.
type downstream struct {
	translates   bool            // a card_translate: bodies of customers must be JSON
	mayRepeat    bool            // a handler that may send a request twice
	forwardsHost bool            // a reverse_proxy that lets clients choose the issuer's Host
	headerRules  []*headers.Rule // of each card_forward
	self         bool            // a card_self
	answersOwn   bool            // a card_self, and nothing that could send a request to an issuer
	proxies      bool            // a reverse_proxy
	unasserted   string          // why no assertion can vouch for what is sent; empty: it can
}

// downstreamOf returns what is behind a card_auth of a server. If only card_forward,
// or a reverse_proxy by HTTP/2, can send a request, mayRepeat is false, and card_auth
// need not prevent that the request is sent twice.
func downstreamOf(server *caddyhttp.Server, from caddyhttp.MiddlewareHandler) downstream {
	var b downstream
	sends := false
	handlers := routes.Behind(server, from)
	for _, handler := range handlers {
		switch next := handler.(type) {
		case *translating.Translate:
			b.translates = true
		case *self.Self:
			b.self = true
		case *issuer.Forward:
			sends = true
			b.headerRules = append(b.headerRules, &next.Rule)
		case *reverseproxy.Handler:
			sends, b.proxies = true, true
			b.mayRepeat = b.mayRepeat || !onlyHTTP2(next)
			b.forwardsHost = b.forwardsHost || forwardsHost(next)
		default:
			b.mayRepeat = b.mayRepeat || !sendsNothing(handler)
		}
	}
	b.answersOwn = b.self && !sends && !b.mayRepeat
	b.mayRepeat = b.mayRepeat || !sends && !b.answersOwn
	b.unasserted = unasserted(handlers)
	return b
}

// onlyHTTP2 reports whether a reverse_proxy speaks HTTP/2 without TLS. By HTTP/2
// net/http repeats only what the issuer has not processed.
func onlyHTTP2(proxy *reverseproxy.Handler) bool {
	transport, ours := proxy.Transport.(*reverseproxy.HTTPTransport)
	return ours && slices.Contains(transport.Versions, "h2c") && !transport.TLSEnabled()
}

// unasserted returns why an assertion could lie or be missing, or "". card_forward
// makes the assertion of what it sends. With reverse_proxy it is made before, so no
// handler may change the method, the target or the body after card_auth.
func unasserted(handlers []caddyhttp.MiddlewareHandler) string {
	proxies := slices.ContainsFunc(handlers, func(handler caddyhttp.MiddlewareHandler) bool {
		_, is := handler.(*reverseproxy.Handler)
		return is
	})
	for _, handler := range handlers {
		name := routes.Name(handler)
		switch next := handler.(type) {
		case *issuer.Forward:
		case *reverseproxy.Handler:
			if next.Rewrite != nil {
				return "assert: the reverse_proxy behind card_auth rewrites what it sends, so that an assertion would lie; use card_forward"
			}
		default:
			if !sendsNothing(handler) {
				return "assert: the handler " + name + " behind card_auth may send requests without an assertion; use card_forward"
			}
			if proxies && (name == "rewrite" || name == "request_body") {
				return "assert: the handler " + name + " between card_auth and reverse_proxy may change the request, so that an assertion would lie; put it before card_auth, or use card_forward"
			}
		}
	}
	return ""
}

// quietHandlers are handlers of Caddy's that send no request anywhere.
var quietHandlers = []string{
	"subroute", "invoke", "encode", "headers", "rewrite", "vars", "map", "static_response", "error", "request_body",
	"tracing", "log_append", "metrics",
}

// sendsNothing reports whether a handler is known to send no request.
func sendsNothing(handler any) bool {
	name := routes.Name(handler)
	return strings.HasPrefix(name, "card_") || slices.Contains(quietHandlers, name)
}

const sharedSelfWarning = "card_self is closed, because a handler that may send requests to an issuer is behind the same card_auth; give card_self a handle block and a card_auth of its own"

const forwardedHostWarning = "the reverse_proxy behind card_auth sends the issuer the Host that the client wrote, which nobody has signed; add header_up Host {upstream_hostport} to it, or header_up Host {host} where the issuer needs the client's"

// forwardsHost reports whether a reverse proxy sends the client's Host to the
// upstream although its configuration does not set Host. Over TLS Caddy sends
// the name of the upstream.
func forwardsHost(proxy *reverseproxy.Handler) bool {
	if transport, ok := proxy.Transport.(*reverseproxy.HTTPTransport); ok && transport.TLSEnabled() {
		return false
	}
	if proxy.Headers == nil || proxy.Headers.Request == nil {
		return true
	}
	isHost := func(name string) bool { return strings.EqualFold(name, "Host") }
	ops := proxy.Headers.Request
	for name := range ops.Set {
		if isHost(name) {
			return false
		}
	}
	return !slices.ContainsFunc(ops.Delete, isHost)
}

// Open is the handler card_open. It does nothing. It states that a reverse_proxy
// behind it in the same route is meant to be reached by requests under /api/v1/
// that no card_auth has judged; without it such a configuration is an error.
type Open struct{}

// CaddyModule returns the Caddy module information.
func (*Open) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.card_open", New: func() caddy.Module { return new(Open) }}
}

// Provision checks the routes around the handler.
func (h *Open) Provision(ctx caddy.Context) error {
	_, err := request.Join(ctx, "card_open", h)
	return err
}

func (*Open) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return next.ServeHTTP(w, r)
}

// UnmarshalCaddyfile reads `card_open`.
func (h *Open) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return directive.Handler(d, "card_open", nil)
}
