// Package headers decides which headers pass, to the issuer and back to the client.
// Begin with [Rule].
package headers

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// Rule decides which request headers reach the issuer as the client sent them: those of a
// list of common ones, and those that pass_header names. Headers are not signed, and
// an issuer behind a gateway trusts headers that only a proxy would write.
//
// Headers of the connection, the five authentication headers, X-Request-Id and
// X-Gateway-* never pass, in any spelling.
//
// The options of a card_forward apply only to its issuers. pass_header adds
// headers that card_auth drops. `headers only` passes only some of those that
// card_auth passes.
type Rule struct {
	// Headers that pass beside those of the list. The issuer must not
	// trust them: any client can write them. Default: none.
	PassHeader []string `json:"pass_header,omitempty"`

	// Only these headers pass, and Content-Type and Content-Encoding, because
	// the body cannot be read without them. Default: those of the list.
	OnlyHeaders []string `json:"only_headers,omitempty"`

	named  map[string]bool // the names of either list, in the canonical form of net/http
	behind map[string]bool // the names in the options of a card_forward behind
}

// Prepare checks the names and prepares the rule. Errors name the option and
// the header.
func (rule *Rule) Prepare() error {
	option, names := "pass_header", rule.PassHeader
	if len(rule.OnlyHeaders) > 0 {
		option, names = "headers only", rule.OnlyHeaders
		if len(rule.PassHeader) > 0 {
			return errors.New("pass_header and headers only exclude each other; add the names to headers only")
		}
	}
	rule.named = make(map[string]bool, len(names))
	for _, name := range names {
		var buffer [maxName]byte
		folded := fold(&buffer, name)
		if len(folded) == 0 || len(name) > maxName || strings.ContainsAny(name, " \t:,;\"(){}*") {
			return fmt.Errorf("%s %q: not the name of a header", option, name)
		}
		if bodyNames[string(folded)] && !describesBody(http.CanonicalHeaderKey(name)) {
			return fmt.Errorf("%s %s: write Content-Type or Content-Encoding; another spelling never passes", option, name)
		}
		if isOurs(name) {
			return fmt.Errorf("%s %s: this header belongs to the connection or to the gateway and never passes", option, name)
		}
		rule.named[http.CanonicalHeaderKey(name)] = true
	}
	return nil
}

// SetAside makes clean return the headers that a handler behind names in its
// options.
func (rule *Rule) SetAside(behind *Rule) {
	if rule.behind == nil {
		rule.behind = make(map[string]bool)
	}
	maps.Copy(rule.behind, behind.named)
}

// Clean removes the headers that do not reach the issuer. It also removes headers that
// Connection names (RFC 9110, section 7.6.1). The gateway sets its own headers
// later, so Connection cannot remove those.
//
// It returns the removed headers that a card_forward behind names in its
// options, because only that handler may send them, and the names of those that an
// operator may miss: neither the gateway's nor the connection's.
func (rule *Rule) Clean(h http.Header) (aside http.Header, dropped []string) {
	for _, names := range h["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name, values := range h {
		if rule.passes(name) {
			continue
		}
		delete(h, name)
		switch {
		case rule.behind[name]:
			if aside == nil {
				aside = make(http.Header)
			}
			aside[name] = values
		case !usuallyDropped[name] && !isOurs(name):
			dropped = append(dropped, name)
		}
	}
	return aside, dropped
}

// passes reports whether a header reaches the issuer as the client sent it.
func (rule *Rule) passes(name string) bool {
	switch {
	case rule.named[name]:
		return true
	case len(rule.OnlyHeaders) > 0:
		return describesBody(name) || name == Shape // card_translate reads and removes it
	default:
		return passing[name]
	}
}

// passing are the headers that pass without an option. A name has one spelling, so that
// the issuer has no second value to choose from.
var passing = namesOf(`Accept Accept-Charset Accept-Encoding Accept-Language Cache-Control Content-Type Content-Encoding Content-Language
	Content-Disposition Content-Digest Repr-Digest User-Agent Idempotency-Key If-Match If-None-Match If-Modified-Since If-Unmodified-Since
	If-Range Range Last-Event-Id Prefer Traceparent Tracestate Baggage B3 X-B3-Traceid X-B3-Spanid X-B3-Parentspanid X-B3-Sampled
	X-B3-Flags Uber-Trace-Id X-Correlation-Id ` + Shape)

// usuallyDropped are names that nobody misses, here because they are frequent.
var usuallyDropped = namesOf(`X-Api-Key X-Timestamp X-Nonce X-Body-Hash X-Signature Connection Content-Length X-Request-Id
	X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host`)

func namesOf(names string) map[string]bool {
	set := make(map[string]bool)
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

// Recall restores headers that card_auth has set aside, if this handler's
// options name them.
func (rule *Rule) Recall(header, aside http.Header) {
	for name, values := range aside {
		if rule.named[name] {
			header[name] = values
		}
	}
}

// Sends reports whether a header reaches the issuers of this handler. With the
// option `headers only` these are the named ones, those that describe the body,
// and the gateway's own. Without it, all.
func (rule *Rule) Sends(name string) bool {
	if len(rule.OnlyHeaders) == 0 || rule.named[name] || describesBody(name) {
		return true
	}
	return isIdentity(name) || name == RequestID
}

// maxName is the longest name that an option takes.
const maxName = 63

// fold returns a header's name as the most lenient backend reads it: letters and digits
// alone, in lower case. It uses the buffer, so that a usual name needs no memory.
func fold(buffer *[maxName]byte, name string) []byte {
	folded := buffer[:0]
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z':
			folded = append(folded, c+'a'-'A')
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			folded = append(folded, c)
		}
	}
	return folded
}

// isOurs reports whether a header belongs to the gateway or to the connection.
func isOurs(name string) bool {
	var buffer [maxName]byte
	return ourNames[string(fold(&buffer, name))] || isIdentity(name)
}

// isIdentity reports whether a name begins as those of the headers that name the caller
// to the issuer.
func isIdentity(name string) bool {
	var buffer [maxName]byte
	return bytes.HasPrefix(fold(&buffer, name), []byte("xgateway"))
}

// DropIdentity removes the identity headers that a client wrote.
func DropIdentity(h http.Header) {
	for name := range h {
		if !begins(name, "xg") {
			continue // most of them; to fold a name takes longer
		}
		if isIdentity(name) {
			delete(h, name)
		}
	}
}

// begins reports whether the letters and digits of a name begin so, in any case.
func begins(name, begin string) bool {
	found := 0
	for i := range len(name) {
		switch c := name[i] | 0x20; {
		case found == len(begin):
			return true
		case c == begin[found]:
			found++
		case 'a' <= c && c <= 'z', '0' <= name[i] && name[i] <= '9':
			return false
		}
	}
	return found == len(begin)
}

// Folded names: bodyNames those of describesBody; ourNames those that authenticate the
// client, that the gateway writes, and that are of one connection and of the framing of
// one message. No option passes ourNames.
var (
	bodyNames = namesOf(`contenttype contentencoding`)
	ourNames  = namesOf(`xapikey xtimestamp xnonce xbodyhash xsignature xrequestid
		connection keepalive proxyconnection proxyauthorization proxyauthenticate upgrade
		http2settings te trailer trailers transferencoding contentlength host expect earlydata`)
)

// SpeaksOfCaching reports whether a header could make a cache store an answer
// although Cache-Control forbids it: one for one kind of cache (RFC 9213), or a
// validator such as ETag. Such a name has a word about caches, times or edges.
func SpeaksOfCaching(name string) bool {
	if name == "Last-Modified" {
		return true
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "cache") || cachingWords[word]
	})
}

var cachingWords = namesOf(`age edge etag expires maxage pragma smaxage surrogate ttl`)

// DropOwn removes headers that only the gateway may set on an answer, and the
// announcement of trailers, which are never sent.
func DropOwn(h http.Header) {
	for name := range h {
		if mayBeOwn(name) && (isOwn(name) || strings.HasPrefix(name, http.TrailerPrefix)) {
			delete(h, name)
		}
	}
}

// mayBeOwn reports whether a name begins as those of DropOwn do. Most names do not;
// to fold one takes longer.
func mayBeOwn(name string) bool {
	for i := range len(name) {
		switch c := name[i] | 0x20; {
		case 'a' <= c && c <= 'z':
			return strings.IndexByte("xrdt", c) >= 0
		case '0' <= c && c <= '9':
			return false
		}
	}
	return false
}

// isOwn reports whether only the gateway may set a header on an answer, in any
// spelling that a client may fold into the same name. All names that begin with
// RateLimit or X-RateLimit are such: which of them a client knows depends on its age.
func isOwn(name string) bool {
	var buffer [maxName]byte
	folded := fold(&buffer, name)
	return isIdentity(name) || ownNames[string(folded)] || bytes.HasPrefix(folded, []byte("ratelimit")) || bytes.HasPrefix(folded, []byte("xratelimit"))
}

// ownNames are further headers that only the gateway may set on an answer, folded.
// Date is among them because clients correct their clocks by it: without one the
// server writes the time of the gateway's.
var ownNames = func() map[string]bool {
	set := namesOf("date trailer")
	for _, name := range []string{RequestID, auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature} {
		var buffer [maxName]byte
		set[string(fold(&buffer, name))] = true
	}
	return set
}()

// StaysInHead reports whether a header is Caddy's, for the connection or the host.
func StaysInHead(name string) bool {
	return name == "Server" || name == "Alt-Svc" || name == "Strict-Transport-Security"
}

// Shape asks for the answer in the shape of a customer variant.
const Shape = "X-Card-Variant"

// Assertion is the signed statement about the request, for the upstream.
const Assertion = "X-Gateway-Assertion"

// Headers that the gateway sets for the upstream.
const (
	RequestID = "X-Request-Id"
	KeyID     = "X-Gateway-Key-Id"
	Tenant    = "X-Gateway-Tenant"
	Scopes    = "X-Gateway-Scopes"
	Operation = "X-Gateway-Operation"
)

// The headers that say what a body is.
const (
	ContentType     = "Content-Type"
	ContentEncoding = "Content-Encoding"
)

// describesBody reports whether the header is needed to read the body.
func describesBody(name string) bool { return name == ContentType || name == ContentEncoding }

// Forwarded is `no` on a 503 of the gateway if the issuer has seen nothing
// of the request. The client may send the request again.
const Forwarded = "X-Gateway-Forwarded"

// Values are values of headers in one piece of memory, where each would
// have its own.
type Values struct {
	values [8]string
	used   int
}

// Set sets a header. The name is canonical.
func (v *Values) Set(h http.Header, name, value string) {
	if v.used == len(v.values) {
		h[name] = []string{value}
		return
	}
	at := v.used
	v.used++
	v.values[at] = value
	h[name] = v.values[at : at+1 : at+1]
}

// TakeShape removes X-Card-Variant, in every spelling that a backend may fold into it,
// and returns its values.
func TakeShape(h http.Header) []string {
	values := h[Shape]
	var buffer [maxName]byte
	for name := range h {
		if begins(name, "xc") && string(fold(&buffer, name)) == "xcardvariant" {
			delete(h, name)
		}
	}
	return values
}
