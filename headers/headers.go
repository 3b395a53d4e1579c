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

// Rule decides which request headers reach the issuer as the client sent
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
type Rule struct {
	// Headers that pass although the rule would drop them. The issuer must not
	// trust them: any client can write them. Default: none.
	PassHeader []string `json:"pass_header,omitempty"`

	// Only these headers pass, and Content-Type and Content-Encoding, because
	// the body cannot be read without them. Default: the rule decides.
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

// SetAside makes clean return the headers that a handler behind names in its
// options.
func (rule *Rule) SetAside(behind *Rule) {
	if rule.behind == nil {
		rule.behind = make(map[string]bool)
	}
	maps.Copy(rule.behind, behind.named)
}

// Clean removes the headers that must not reach the issuer, in every spelling
// that a backend may fold into the same name. It also removes headers that
// Connection names (RFC 9110, section 7.6.1). The gateway sets its own headers
// later, so Connection cannot remove those.
//
// It returns the removed headers that a card_forward behind names in its
// options; only that handler may send them.
func (rule *Rule) Clean(h http.Header) (aside http.Header) {
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
func (rule *Rule) passes(name string) bool {
	switch {
	case rule.named[name]:
		return true
	case len(rule.OnlyHeaders) > 0:
		return describesBody(name) || name == Shape // card_translate reads and removes it
	}
	if passes, common := commonHeaders[name]; common {
		return passes
	}
	folded, ok := foldName(name)
	return ok && !folded.isOurs() && !folded.respellsBody(name) && !soleNames[string(folded.bytes())] && !folded.lies()
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
	folded, _ := foldName(name)
	return folded.isIdentity() || name == RequestID
}

// Words of headers that could mislead the issuer: the issuer expects such
// headers only from a proxy or an authenticating server, but a client could
// write them. A header that contains one of these words, in any spelling, does
// not reach the issuer. Such words, and such headers, "lie".

// How a request travelled: address, scheme, host, port, path, method.
const (
	addressWords = `ip ips ipv4 ipv6 addr addrs address addresses geoip remote peer via hop hops xff cdnloop
		forward forwarded forwarder forwarding forwards proxy proxies proxied`
	schemeWords = `scheme proto protocol https ssl tls secure alpn visitor`
	hostWords   = `host hosts hostname vhost authority domain sdomain server servers sni port ports altused altsvc`
	pathWords   = `path paths pathinfo basepath url urls uri uris prefix script query querystring`
	methodWords = `method methods verb override overrides soapaction`
)

// The caller, and the certificate that proves who it is.
const (
	userWords = `user users usr username userid userinfo uid login logon principal subject actor
		role roles group groups tenant tenants org orgs organization organisation identity identities
		impersonate impersonated impersonation runas actas sudo admin superuser consumer clientid apikey
		credential credentials permission permissions privilege privileges scope scopes entitlement entitlements
		claim claims jwt jws token tokens bearer oidc oauth oauth2 openid sso saml kerberos spnego assertion
		auth authn authz authdir authenticated authentication authorization authorized email password passwd secret
		behalf caller delegate delegated delegates delegation masquerade realm realms cred creds upn eppn universalid gid
		acl acls trust trusted privileged signature signatures dpop hobareg`
	certificateWords = `cert certs certificate certificates x509 cn dn pem thumbprint fingerprint
		verify verified cipher mtls spiffe xfcc ja3 ja4`
)

// Orders to a server, a framework or a mesh.
const steeringWords = `accel sendfile sendtempfile lighttpd litespeed nginx haproxy traefik varnish envoy istio kong
	reproxy redirect redirects rewrite rewritten subrequest middleware nextjs upstream upstreams backend backends
	route router routing target dst dispatch invoke internal bypass purge surrogate esi debug
	linkerd l5d dapr consul ingress egress mesh grpcmetadata grpcgateway
	cgi fcgi fastcgi wsgi uwsgi appengine waws`

// joiningWords do not lie. They are listed because some headers join them with a
// word above: ClientIP, RealIP, RemoteUser1, AuthType.
const joiningWords = `x http http2 client real true orig original originating source src end front socket connecting
	cluster azure cf web my is id name names info data string value header count country for of by from to the
	request req response base root external inbound mod gateway
	type kind level code key no number serial sn guid uuid session status state context mode ref 0 1 2 3 4 5 6 7 8 9`

// soleNames are headers that lie only as the whole name.
var soleNames = setOf(`from destination depth overwrite`)

// headerWords holds every word; true means that it lies.
var headerWords = func() map[string]bool {
	words := make(map[string]bool)
	for word := range setOf(joiningWords) {
		words[word] = false
	}
	for _, class := range []string{
		addressWords, schemeWords, hostWords, pathWords, methodWords, userWords, certificateWords, steeringWords,
	} {
		for word := range setOf(class) {
			words[word] = true
		}
	}
	return words
}()

// longestWord is the length of the longest word.
var longestWord = func() (longest int) {
	for word := range headerWords {
		longest = max(longest, len(word))
	}
	return longest
}()

func setOf(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// maxHeaderName is the most letters and digits of a header's name that is judged.
// Longer names do not pass.
const maxHeaderName = 63

// A foldedName is a header's name as the most lenient backend reads it: in lower
// case and without separators. A separator is any byte that is not a letter or
// digit.
type foldedName struct {
	text   [maxHeaderName]byte
	length int
	begins uint64 // bit n is set if a separator was before letter n, and for 0
}

// foldName folds a name. It returns false for a name that is too long.
func foldName(name string) (f foldedName, ok bool) {
	f.begins = 1
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		default:
			f.begins |= 1 << f.length
			continue
		}
		if f.length == maxHeaderName {
			return f, false
		}
		f.text[f.length] = c
		f.length++
	}
	return f, true
}

func (f *foldedName) bytes() []byte { return f.text[:f.length] }

// lies reports whether a part of the name is a sequence of known words, with at
// least one that lies. The part must begin and end at a separator, or at an end
// of the name.
func (f *foldedName) lies() bool {
	s := f.bytes()
	harmless, lying := f.begins, uint64(0) // how far words of the list reach from the beginning of some word
	for i := range s {
		here := uint64(1) << i
		if (harmless|lying)&here == 0 {
			continue
		}
		for end := i + 1; end <= min(len(s), i+longestWord); end++ {
			lie, known := headerWords[string(s[i:end])]
			if !known {
				continue
			}
			if lie || lying&here != 0 {
				lying |= 1 << end
			}
			if !lie && harmless&here != 0 {
				harmless |= 1 << end
			}
		}
	}
	return lying&(f.begins|1<<len(s)) != 0
}

// isOurs reports whether a header belongs to the gateway or to the connection.
func (f *foldedName) isOurs() bool {
	return gatewayNames[string(f.bytes())] || connectionNames[string(f.bytes())] || f.isIdentity()
}

// isIdentity reports whether the name is X-Gateway, or X-Gateway followed by a
// separator and more: the headers that name the caller to the upstream. Those that
// the gateway writes are meant without any separator too.
func (f *foldedName) isIdentity() bool {
	const prefix = "xgateway"
	return bytes.HasPrefix(f.bytes(), []byte(prefix)) &&
		(f.length == len(prefix) || f.begins>>len(prefix)&1 == 1 || identityNames[string(f.bytes())])
}

// respellsBody reports whether a name is another spelling of one that the gateway
// reads to know what a body is. Two spellings could give the issuer two meanings.
func (f *foldedName) respellsBody(name string) bool {
	return bodyNames[string(f.bytes())] && !describesBody(http.CanonicalHeaderKey(name))
}

// DropIdentity removes the identity headers that a client wrote.
func DropIdentity(h http.Header) {
	for name := range h {
		if !beginsXG(name) {
			continue // most of them; to fold a name takes longer
		}
		if folded, _ := foldName(name); folded.isIdentity() {
			delete(h, name)
		}
	}
}

// beginsXG reports whether the first two letters or digits of the name are x and g.
func beginsXG(name string) bool {
	const begin = "xg"
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

// identityNames are the names of identity headers, and bodyNames are those of
// describesBody, folded.
var (
	identityNames = foldedSet(KeyID, Tenant, Scopes, Operation, Assertion, Forwarded)
	bodyNames     = foldedSet(ContentType, ContentEncoding)
)

func foldedSet(names ...string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range names {
		folded, _ := foldName(name)
		set[string(folded.bytes())] = true
	}
	return set
}

// gatewayNames are the headers that authenticate the client or that the gateway
// writes. connectionNames are those of one connection and of the framing of one
// message. No option passes them. The names are folded.
var (
	gatewayNames    = setOf(`xapikey xtimestamp xnonce xbodyhash xsignature xrequestid`)
	connectionNames = setOf(`connection keepalive proxyconnection proxyauthorization proxyauthenticate upgrade
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

var cachingWords = setOf(`age edge etag expires maxage pragma smaxage surrogate ttl`)

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
	folded, _ := foldName(name)
	text := folded.bytes()
	return folded.isIdentity() || ownNames[string(text)] ||
		bytes.HasPrefix(text, []byte("ratelimit")) || bytes.HasPrefix(text, []byte("xratelimit"))
}

// ownNames are further headers that only the gateway may set on an answer, folded.
// Date is among them because clients correct their clocks by it: without one the
// server writes the time of the gateway's.
var ownNames = foldedSet(RequestID, auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature, "Date", "Trailer")

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

// commonHeaders are headers that are not judged by their words: true means that
// the header passes. Most are here because they are frequent; User-Agent is here
// because it contains a word that would drop it.
var commonHeaders = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Cache-Control": true, "Content-Encoding": true,
	"Content-Type": true, "Cookie": true, "Idempotency-Key": true, "If-Match": true, "If-None-Match": true, "Origin": true,
	"Traceparent": true, "Tracestate": true, "User-Agent": true, "X-Correlation-Id": true,

	"X-Api-Key": false, "X-Timestamp": false, "X-Nonce": false, "X-Body-Hash": false, "X-Signature": false,
	"Connection": false, "Content-Length": false, "X-Forwarded-For": false, "X-Forwarded-Proto": false, "X-Request-Id": false,
}

// HideIdempotencyKeys gives the headers lower-case names in the map. On the wire
// these are the same headers, but net/http looks for the canonical names and
// would send a POST with one of them twice.
func HideIdempotencyKeys(h http.Header) {
	for canonical, lower := range map[string]string{"Idempotency-Key": "idempotency-key", "X-Idempotency-Key": "x-idempotency-key"} {
		if values, ok := h[canonical]; ok {
			delete(h, canonical)
			h[lower] = values
		}
	}
}

// TakeShape removes X-Card-Variant, in every spelling that a backend may fold into it,
// and returns its values.
func TakeShape(h http.Header) []string {
	values := h[Shape]
	for name := range h {
		if folded, _ := foldName(name); string(folded.bytes()) == "xcardvariant" {
			delete(h, name)
		}
	}
	return values
}
