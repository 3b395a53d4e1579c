package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// An orderCheck refuses servers whose routes are certainly a mistake, and warns
// of those whose routes are probably one.
type orderCheck struct {
	rateLimits bool // the app has limits of its own
	log        *zap.Logger
	checked    map[*caddyhttp.Server]bool
	guarded    bool // the server has a card_auth
	errs       []error
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
	c.checked[server], c.guarded, c.errs = true, false, nil
	walk := &stepWalk{server: server, visit: c.step}
	walk.routes(server.Routes, nil, nil)
	if c.guarded {
		c.trusted(server)
	}
	return errors.Join(c.errs...)
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

var errLimitsLate error = cardlog.PlainError("card_rate_limit comes after card_auth; in a route of your own write card_rate_limit first")

func (c *orderCheck) refuse(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// step checks a handler by those that may have handled a request before it.
func (c *orderCheck) step(s *step, before []earlier) {
	ran := func(name string) (may, must bool) {
		for _, e := range before {
			if e.name == name {
				may, must = true, must || !e.maybe || !e.apart
			}
		}
		return may, must
	}
	mayAuth, auth := ran("card_auth")
	switch s.name {
	case "card_auth":
		c.guarded = true
		if auth {
			c.refuse("two card_auth handle one request: the second finds the nonce spent by the first and refuses it; keep one of them")
		}
		if _, late := ran("card_translate"); late {
			c.refuse("card_translate comes before card_auth, and must not see a request that is not judged; write card_rate_limit, card_auth, card_translate in this order")
		}
		if may, _ := ran("card_rate_limit"); !may && c.rateLimits {
			c.log.Warn("limits are configured, and a card_auth has no card_rate_limit in front of it: nothing is limited there; write card_rate_limit before card_auth")
		}
	case "card_rate_limit":
		if auth {
			c.refuse("%w", errLimitsLate)
		}
	case "card_translate", "card_forward":
		if !mayAuth {
			c.refuse("%s has no card_auth in front of it and would answer 500 to every request; write card_rate_limit, card_auth, card_translate, card_forward in this order", s.name)
		}
	case "reverse_proxy":
		if !mayAuth {
			c.unguarded(s)
		} else if repeats(s) {
			c.log.Warn("a reverse_proxy behind card_auth has lb_retries or lb_try_duration: they have no effect, because a request is sent to the issuer at most once; remove them")
		}
	}
}

// unguarded warns of a reverse_proxy that takes requests to the API.
func (c *orderCheck) unguarded(s *step) {
	for _, pattern := range s.paths {
		if strings.HasPrefix(strings.ToLower(pattern), "/api/v1") {
			c.log.Warn("a reverse_proxy takes requests under " + pattern + " that no card_auth has judged; write card_auth in front of it")
			return
		}
	}
}

// repeats reports whether a reverse_proxy is configured to send a request
// again.
func repeats(s *step) bool {
	var options struct {
		LoadBalancing struct {
			Retries     int            `json:"retries"`
			TryDuration caddy.Duration `json:"try_duration"`
		} `json:"load_balancing"`
	}
	balancing := &options.LoadBalancing
	if proxy, ok := s.loaded.(*reverseproxy.Handler); ok && proxy.LoadBalancing != nil {
		balancing.Retries, balancing.TryDuration = proxy.LoadBalancing.Retries, proxy.LoadBalancing.TryDuration
	} else {
		_ = json.Unmarshal(s.raw, &options) // Caddy itself reports what is wrong
	}
	return balancing.Retries > 0 || balancing.TryDuration > 0
}

// trusted warns of trusted proxies that are whole private networks: each machine
// in them can choose the address that IP whitelists see.
func (c *orderCheck) trusted(server *caddyhttp.Server) {
	const wide = "10.0.0.0/8" // one of those that private_ranges stands for
	source := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	if !source.IsValid() || source.IsNil() {
		return
	}
	static := reflect.Indirect(source.Elem())
	if static.Type() != reflect.TypeFor[caddyhttp.StaticIPRange]() {
		return
	}
	ranges := static.FieldByName("Ranges")
	for i := range ranges.Len() {
		if ranges.Index(i).String() == wide {
			c.log.Warn("trusted_proxies holds " + wide + ", as private_ranges does: every machine there can choose the address that IP whitelists see; name the addresses of your load balancers")
		}
	}
}
