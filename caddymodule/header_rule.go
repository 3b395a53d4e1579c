package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
)

// HeaderRule decides which request headers reach the issuer as the client sent
// them. Without options all pass except headers that could mislead the issuer,
// in any spelling: those that describe how the request travelled (address,
// scheme, host, port, path, method), name a user or a certificate, or give
// orders to a server. Names are compared without regard to case.
//
// Headers of the connection, the five authentication headers, X-Request-Id and
// X-Gateway-* never pass.
//
// The options of a card_forward apply only to its issuers. pass_header adds
// headers that card_auth drops. `headers only` passes only some of those that
// card_auth passes.
type HeaderRule struct {
	// Headers that pass although the rule would drop them. The issuer must not
	// trust them: any client can write them. Default: none.
	PassHeader []string `json:"pass_header,omitempty"`

	// Only these headers pass, and Content-Type and Content-Encoding, because
	// the body cannot be read without them. Default: the rule decides.
	OnlyHeaders []string `json:"only_headers,omitempty"`

	named  map[string]bool // the names of either list, in the canonical form of net/http
	behind map[string]bool // the names in the options of a card_forward behind
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
		if folded.respellsBody(name) {
			return fmt.Errorf("%s %s: write Content-Type or Content-Encoding; another spelling never passes", option, name)
		}
		if folded.isOurs() {
			return fmt.Errorf("%s %s: this header belongs to the connection or to the gateway and never passes", option, name)
		}
		rule.named[http.CanonicalHeaderKey(name)] = true
	}
	return nil
}

// setAside makes clean return the headers that a handler behind names in its
// options.
func (rule *HeaderRule) setAside(behind *HeaderRule) {
	if rule.behind == nil {
		rule.behind = make(map[string]bool)
	}
	maps.Copy(rule.behind, behind.named)
}

// clean removes the headers that must not reach the issuer, in every spelling
// that a backend may fold into the same name. It also removes headers that
// Connection names (RFC 9110, section 7.6.1). The gateway sets its own headers
// later, so Connection cannot remove those.
//
// It returns the removed headers that a card_forward behind names in its
// options; only that handler may send them.
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
		return describesBody(name) || name == headerShape // card_translate reads and removes it
	}
	if passes, common := commonHeaders[name]; common {
		return passes
	}
	folded, ok := foldName(name)
	return ok && !folded.isOurs() && !folded.respellsBody(name) && !soleNames[string(folded.bytes())] && !folded.lies()
}

// recall restores headers that card_auth has set aside, if this handler's
// options name them.
func (rule *HeaderRule) recall(header, aside http.Header) {
	for name, values := range aside {
		if rule.named[name] {
			header[name] = values
		}
	}
}

// sends reports whether a header reaches the issuers of this handler. With the
// option `headers only` these are the named ones, those that describe the body,
// and the gateway's own. Without it, all.
func (rule *HeaderRule) sends(name string) bool {
	if len(rule.OnlyHeaders) == 0 || rule.named[name] || describesBody(name) {
		return true
	}
	folded, _ := foldName(name)
	return folded.isIdentity() || name == headerRequestID
}
