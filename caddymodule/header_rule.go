package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// HeaderRule says which request headers reach the issuer as the client sent
// them. Without options these are all but the ones that lie: that speak of the
// way of the request (address, scheme, host, port, path, method, prefix), of a
// user or a certificate, or that give orders to a server; in any spelling.
// Names are compared without regard to case.
//
// What belongs to the connection, the five authentication headers, X-Request-Id
// and X-Gateway-* never pass.
//
// The options of a card_forward are about its issuers alone: pass_header lets
// more pass than the rule of card_auth, headers only of all that only those.
type HeaderRule struct {
	// Headers that pass although the rule would drop them. The issuer must not
	// trust them: any client can write them. Default: none.
	PassHeader []string `json:"pass_header,omitempty"`

	// Only these headers pass, and Content-Type and Content-Encoding, without
	// which the body cannot be read. Default: the rule decides.
	OnlyHeaders []string `json:"only_headers,omitempty"`

	named  map[string]bool // the names of either list, as net/http indexes them
	behind map[string]bool // those that a card_forward behind names
}

// options returns the lines by which a handler's block sets the rule.
func (rule *HeaderRule) options() []option {
	return []option{
		{name: "pass_header", repeats: true, read: func(d *caddyfile.Dispenser) error {
			names := d.RemainingArgs()
			if len(names) == 0 {
				return d.Err("pass_header needs the names of headers")
			}
			rule.PassHeader = append(rule.PassHeader, names...)
			return nil
		}},
		{name: "headers", instead: "write all names on one line", read: func(d *caddyfile.Dispenser) error {
			words := d.RemainingArgs()
			if len(words) < 2 || words[0] != "only" {
				return d.Err("expected: headers only, and the names of headers")
			}
			rule.OnlyHeaders = words[1:]
			return nil
		}},
	}
}

// provision checks the names and prepares the rule. Errors name the option and
// the header.
func (rule *HeaderRule) provision() error {
	option, names := "pass_header", rule.PassHeader
	if len(rule.OnlyHeaders) > 0 {
		option, names = "headers only", rule.OnlyHeaders
		if len(rule.PassHeader) > 0 {
			return errors.New("pass_header and headers only exclude each other; add the names to headers only")
		}
	}
	rule.named = make(map[string]bool, len(names))
	for _, name := range names {
		folded, ok := foldName(name)
		if !ok || folded.length == 0 || strings.ContainsAny(name, " \t:,;\"(){}*") {
			return fmt.Errorf("%s %q: not the name of a header", option, name)
		}
		if folded.isOurs() {
			return fmt.Errorf("%s %s: this header belongs to the connection or to the gateway and never passes", option, name)
		}
		rule.named[http.CanonicalHeaderKey(name)] = true
	}
	return nil
}

// setAside makes the rule keep, for a handler behind, what that one's own rule
// names.
func (rule *HeaderRule) setAside(behind *HeaderRule) {
	if rule.behind == nil {
		rule.behind = make(map[string]bool)
	}
	maps.Copy(rule.behind, behind.named)
}
