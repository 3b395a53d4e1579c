package caddymodule

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"

	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// certificates returns those that Caddy has for the names of the sites of the
// active configuration, by name.
func certificates() []keyadmin.Certificate {
	list := []keyadmin.Certificate{}
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	http, ok := app.(*caddyhttp.App)
	if err != nil || !ok {
		return list
	}
	for _, name := range siteNames(http) {
		for _, c := range caddytls.AllMatchingCertificates(name) {
			if c.Leaf != nil {
				list = append(list, keyadmin.Certificate{Name: name, Issuer: c.Leaf.Issuer.String(), Expires: c.Leaf.NotAfter.UTC()})
			}
		}
	}
	return list
}

// siteNames returns the names that the routes of servers with TLS match, sorted.
func siteNames(app *caddyhttp.App) (names []string) {
	for _, server := range app.Servers {
		if len(server.TLSConnPolicies) == 0 {
			continue
		}
		for i := range server.Routes {
			for _, set := range server.Routes[i].MatcherSets {
				for _, matcher := range set {
					if hosts, ok := matcher.(*caddyhttp.MatchHost); ok {
						names = append(names, *hosts...)
					}
				}
			}
		}
	}
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
