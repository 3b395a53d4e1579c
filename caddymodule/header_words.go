package caddymodule

import (
	"bytes"
	"net/http"
	"strings"
)

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

// dropIdentity removes the identity headers that a client wrote.
func dropIdentity(h http.Header) {
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
	identityNames = foldedSet(headerIDKey, headerTenant, headerScopes, headerOperation, headerAssertion, headerForwarded)
	bodyNames     = foldedSet(headerType, headerEncoding)
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
