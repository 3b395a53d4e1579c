package tests

import (
	"fmt"
	"net"
)

// site is what a test wants in its Caddyfile. The zero value with an upstream
// is a plain gateway without rate limits.
type site struct {
	upstream string // address of the issuer
	store    string // what the line store says; empty: an embedded store
	global   string // further lines of the global block card_gateway
	servers  string // lines of the global block servers
	auth     string // lines of the block card_auth
	limits   string // lines of the block card_rate_limit; noLimits leaves it out
	proxy    string // lines of the block reverse_proxy
	routes   string // instead of all handlers under /api/v1/
	extra    string // further directives of the site
	logs     string // instead of `format card` in both log blocks
	options  string // further global options
	sites    string // further sites
}

const noLimits = ""

// withLimits puts card_rate_limit on the route with its defaults.
const withLimits = "\n"

// caddyfile returns the configuration for the address it serves on.
func (g *gateway) caddyfile() string {
	s, format := g.site, g.site.logs
	if s.store == "" {
		s.store = "file " + g.path("data")
	}
	if format == "" {
		format = "format card"
	}
	routes := s.routes
	if routes == "" {
		if s.limits != noLimits {
			routes += "card_rate_limit {\n" + s.limits + "\n}\n"
		}
		routes += "card_auth {\n" + s.auth + "\n}\nreverse_proxy " + s.upstream + " {\n" + s.proxy + "\n}\n"
	}
	host, port, _ := net.SplitHostPort(g.addr)
	return fmt.Sprintf(`{
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
`, g.dir, format, s.global, s.servers, port, host, s.extra, routes, s.store, s.options, s.sites)
}
