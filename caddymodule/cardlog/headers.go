package cardlog

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap/zapcore"
)

// loggedHeaders are the headers that explain a request or an answer and hold
// no secret. Names that only the gateway may write are not among them: a
// client's own header would stand in the log as the gateway's statement.
var loggedHeaders = nameSet(
	"Accept", "Accept-Encoding", "Allow", "Alt-Svc", "Cache-Control", "Connection", "Content-Encoding",
	"Content-Length", "Content-Type", "Date", "Expect", "Retry-After", "Server", "Traceparent",
	"Transfer-Encoding", "User-Agent", "Vary", "Via", "Www-Authenticate",
	"X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id",
)

// answerHeaders are those that are also logged of what the client got.
var answerHeaders = nameSet("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset")

func nameSet(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// isHeadersField reports whether a field of a log line holds headers.
func isHeadersField(key string) bool { return key == "headers" || strings.HasSuffix(key, "_headers") }

// logsHeader reports whether the header is written in the field.
func logsHeader(field, name string) bool {
	name = http.CanonicalHeaderKey(name)
	return loggedHeaders[name] || field == "resp_headers" && answerHeaders[name]
}

// headers are the headers of a field of a log line.
type headers struct {
	field string
	http.Header
}

// MarshalLogObject is part of zapcore.ObjectMarshaler.
func (h headers) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for name, values := range h.Header {
		if !logsHeader(h.field, name) {
			continue
		}
		if err := enc.AddArray(name, caddyhttp.LoggableStringArray(maskAll(values))); err != nil {
			return err
		}
	}
	return nil
}

// allowed returns the headers that are written, as a map.
func (h headers) allowed() http.Header {
	kept := make(http.Header)
	for name, values := range h.Header {
		if logsHeader(h.field, name) {
			kept[name] = maskAll(values)
		}
	}
	return kept
}

// maskAll returns the texts masked. Where nothing is masked it returns its
// argument.
func maskAll(texts []string) []string {
	for i, text := range texts {
		if !HidesCardNumber(text) {
			continue
		}
		out := append([]string(nil), texts...)
		for ; i < len(out); i++ {
			out[i] = Mask(out[i])
		}
		return out
	}
	return texts
}
