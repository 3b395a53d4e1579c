package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
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

// clean removes from a client's request what the issuer must not see, in every
// spelling that a backend may fold into the same name. What Connection names
// goes with it (RFC 9110, section 7.6.1); the gateway's own headers are written
// later, so that no such list can remove them.
//
// What is dropped although a card_forward behind has it in its options is
// returned, for that handler alone.
func (rule *HeaderRule) clean(h http.Header) (aside http.Header) {
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name, values := range h {
		if rule.passes(name) {
			continue
		}
		if rule.behind[name] {
			if aside == nil {
				aside = make(http.Header)
			}
			aside[name] = values
		}
		delete(h, name)
	}
	return aside
}

// passes reports whether a header reaches the issuer as the client sent it.
func (rule *HeaderRule) passes(name string) bool {
	switch {
	case rule.named[name]:
		return true
	case len(rule.OnlyHeaders) > 0:
		return describesBody(name) || name == headerShape // which card_translate takes
	}
	if passes, common := commonHeaders[name]; common {
		return passes
	}
	folded, ok := foldName(name)
	return ok && !folded.isOurs() && !soleNames[string(folded.bytes())] && !folded.lies()
}

// describesBody reports whether the body cannot be read without the header.
func describesBody(name string) bool { return name == "Content-Type" || name == "Content-Encoding" }

// recall puts the client's headers back that this handler's options name and
// card_auth has set aside.
func (rule *HeaderRule) recall(header, aside http.Header) {
	for name, values := range aside {
		if rule.named[name] {
			header[name] = values
		}
	}
}

// sends reports whether a header reaches the issuers: all that card_auth let
// pass, unless the option `headers only` is given, and what the gateway wrote.
func (rule *HeaderRule) sends(name string) bool {
	if len(rule.OnlyHeaders) == 0 || rule.named[name] || describesBody(name) {
		return true
	}
	folded, _ := foldName(name)
	return folded.isIdentity() || name == headerRequestID
}
