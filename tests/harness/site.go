package harness

import (
	"fmt"
	"net"
	"strings"
)

// Site holds the parts of a test's Caddyfile. The zero value with an upstream is a
// plain gateway without rate limits.
type Site struct {
	Upstream string // address of the issuer
	Store    string // the arguments of the line store; empty: an embedded store
	Global   string // further lines of the global block card_gateway
	Servers  string // lines of the global block servers
	Auth     string // lines of the block card_auth
	Assert   string // the algorithm of assertions; empty: there are none
	Limits   string // lines of the block card_rate_limit; empty: it is left out
	Terminal string // the handler that forwards; empty: card_forward
	Proxy    string // lines of its block
	// AnswerTimeout is how long the issuer may take to answer; empty: the
	// default of the handler.
	AnswerTimeout string

	Routes  string // instead of all handlers under /api/v1/
	Extra   string // further directives of the site
	Logs    string // instead of `format card` in both log blocks
	Options string // further global options; without http_port there are no redirects to HTTPS
	Sites   string // further sites
}

// WithMistake returns a value of Site.Routes in which a card_rate_limit runs behind
// card_auth for the path /api/v1/misplaced, which is answered 500. Matchers that the
// check of the order of handlers does not evaluate hide that from it. The arguments
// are the lines of card_auth and card_translate, and the handler that forwards.
func WithMistake(auth, translate, toIssuer string) string {
	return "@api path_regexp ^/\n@misplaced path_regexp ^/api/v1/misplaced\n@never header X-Never *\nroute {\n" +
		"card_rate_limit\ncard_auth @api {\n" + auth + "\n}\ncard_rate_limit @misplaced\ncard_auth @never\n" +
		"card_translate @api {\n" + translate + "\n}\n" + strings.Replace(toIssuer, " ", " @api ", 1) + "\n}\n"
}

// WithLimits is a value of Site.Limits. It puts card_rate_limit with its defaults
// on the route.
const WithLimits = "\n"

// caddyfile is the template of Site.Caddyfile. The certificates that a test lets Caddy
// make are for it alone, not for the machine.
const caddyfile = `{
	admin unix/%[1]s/admin.sock
	grace_period 2s
	log {
		output file %[1]s/default.log
		level DEBUG
		%[2]s
	}
	card_gateway {
		store %[9]s
		master_key file %[1]s/master.key
		%[3]s
	}
	servers {
		%[4]s
	}
	%[10]s
}
http://:%[5]s {
	bind %[6]s
	log {
		output file %[1]s/access.log
		%[2]s
	}
	%[7]s
	handle /api/v1/* {
		%[8]s
	}
	handle /readyz {
		card_health ready
	}
	handle /livez {
		card_health live
	}
	handle /metrics {
		metrics
	}
	handle {
		card_refuse not_found
	}
}
%[11]s
`

// Caddyfile returns the configuration for the address it serves on.
func (g *Gateway) Caddyfile() string {
	s, format := g.Site, g.Site.Logs
	if strings.Contains(s.Global, "window ") || strings.Contains(s.Auth, "dry_run") || g.binary != "" {
		g.oddTime.Store(true)
	}
	if s.Store == "" {
		s.Store = "file " + g.Path("data")
	}
	if format == "" {
		format = "format card"
	}
	routes := s.Routes
	if routes == "" {
		if s.Limits != "" {
			routes += "card_rate_limit {\n" + s.Limits + "\n}\n"
		}
		routes += "card_auth {\n" + s.Auth + "\n" + g.AssertBlock() + "}\n" + s.ToIssuer()
	}
	if strings.Contains(s.Sites+s.Extra, "https://") {
		s.Options += "\nskip_install_trust"
		if !strings.Contains(s.Options, "http_port") { // port 80 is not the tests' to take
			s.Options += "\nauto_https disable_redirects"
		}
	}
	host, port, _ := net.SplitHostPort(g.Addr)
	return fmt.Sprintf(caddyfile, g.Dir, format, s.Global, s.Servers, port, host, s.Extra, routes, s.Store, s.Options, s.Sites)
}

// CustomerOperations are the operations of customers whose paths the published
// interface does not show.
const CustomerOperations = `
	operation list_customers GET /api/v1/customers customers:read
	operation get_customer GET /api/v1/customers/{customerId} customers:read
	operation update_customer PATCH /api/v1/customers/{customerId} customers:write`
