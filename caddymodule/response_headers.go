package caddymodule

import (
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
		if name == "" || strings.IndexByte("xXrRT", name[0]) < 0 {
			continue // most of them
		}
		if isOwn(name) || name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) {
			delete(h, name)
		}
	}
}

func isOwn(name string) bool {
	return strings.EqualFold(name, headerRequestID) || hasPrefixFold(name, "x-gateway-") || isLimitHeader(name) ||
		strings.EqualFold(name, auth.HeaderAnsweredAt) || strings.EqualFold(name, auth.HeaderAnswerHash) || strings.EqualFold(name, auth.HeaderAnswerSignature)
}

// isLimitHeader reports whether a header is one of those that show rate limits,
// which only the gateway may set.
func isLimitHeader(name string) bool {
	return hasPrefixFold(name, "x-ratelimit-") || strings.EqualFold(name, "ratelimit") || strings.EqualFold(name, "ratelimit-policy")
}

// hasPrefixFold reports whether a name begins with the prefix, in any case, and goes
// on.
func hasPrefixFold(name, prefix string) bool {
	return len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// staysInHead reports whether a header is Caddy's, for the connection or the host.
func staysInHead(name string) bool {
	return name == "Server" || name == "Alt-Svc" || name == "Strict-Transport-Security"
}
