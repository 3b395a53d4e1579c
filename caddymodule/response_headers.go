package caddymodule

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// speaksOfCaching reports whether a header could make a cache store an answer
// although Cache-Control forbids it: one for one kind of cache (RFC 9213), or a
// validator such as ETag. Such a name has a word about caches, times or edges.
func speaksOfCaching(name string) bool {
	if name == "Last-Modified" {
		return true
	}
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	return slices.ContainsFunc(words, func(word string) bool {
		return strings.HasPrefix(word, "cache") || cachingWords[word]
	})
}

var cachingWords = setOf(`age edge etag expires maxage pragma smaxage surrogate ttl`)

// dropOwn removes headers that only the gateway may set on an answer, and the
// announcement of trailers, which are never sent.
func dropOwn(h http.Header) {
	for name := range h {
		if mayBeOwn(name) && (isOwn(name) || strings.HasPrefix(name, http.TrailerPrefix)) {
			delete(h, name)
		}
	}
}

// mayBeOwn reports whether a name begins as those of dropOwn do. Most names do not;
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
var ownNames = foldedSet(headerRequestID, auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature, "Date", "Trailer")

// staysInHead reports whether a header is Caddy's, for the connection or the host.
func staysInHead(name string) bool {
	return name == "Server" || name == "Alt-Svc" || name == "Strict-Transport-Security"
}
