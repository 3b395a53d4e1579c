package caddymodule

import (
	"net/http"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// speaksOfCaching reports whether a header could make a cache store an answer
// although Cache-Control forbids it. These are headers for one kind of cache
// (RFC 9213), and validators such as ETag.
func speaksOfCaching(name string) bool {
	const control = "cache-control"
	if at := len(name) - len(control); at >= 0 && strings.EqualFold(name[at:], control) {
		return true
	}
	switch name {
	case "Etag", "Last-Modified", "Expires", "Age", "Pragma", "Surrogate-Control", "X-Accel-Expires":
		return true
	default:
		return false
	}
}

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
	return strings.EqualFold(name, headerRequestID) || strings.EqualFold(name, headerForwarded) || isLimitHeader(name) ||
		strings.EqualFold(name, auth.HeaderAnsweredAt) || strings.EqualFold(name, auth.HeaderAnswerHash) || strings.EqualFold(name, auth.HeaderAnswerSignature)
}

// isLimitHeader reports whether a header is one of those that show rate limits,
// which only the gateway may set.
func isLimitHeader(name string) bool {
	const prefix = "x-ratelimit-"
	if len(name) > len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
		return true
	}
	return strings.EqualFold(name, "ratelimit") || strings.EqualFold(name, "ratelimit-policy")
}

// staysInHead reports whether a header is Caddy's, for the connection or the host.
func staysInHead(name string) bool {
	return name == "Server" || name == "Alt-Svc" || name == "Strict-Transport-Security"
}
