// Package cardlog is the log format `card`: Caddy's JSON encoder, and what it
// must not write.
package cardlog

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

func init() {
	caddy.RegisterModule(LogEncoder{})
}

// LogEncoder is the log format `card`: Caddy's JSON encoder with the redaction
// that card data needs built in. Caddy copies a request for its log before any
// handler runs, so nothing but the encoder can keep credentials out of it.
//
// Of the headers of requests and answers only those of a fixed list are
// written; the values of a query and what looks like a card number in a path
// are masked.
type LogEncoder struct {
	logging.LogEncoderConfig

	redactor `json:"-"`
	json     *logging.JSONEncoder
}

// CaddyModule returns the Caddy module information.
func (LogEncoder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.card", New: func() caddy.Module { return new(LogEncoder) }}
}

// Provision makes the JSON encoder beneath.
func (e *LogEncoder) Provision(ctx caddy.Context) error {
	e.json = &logging.JSONEncoder{LogEncoderConfig: e.LogEncoderConfig}
	if err := e.json.Provision(ctx); err != nil {
		return err
	}
	e.redactor = redactor{ObjectEncoder: e.json.Encoder}
	return nil
}

// Clone is part of zapcore.Encoder.
func (e *LogEncoder) Clone() zapcore.Encoder {
	return e.with(e.json.Encoder.Clone())
}

func (e *LogEncoder) with(encoder zapcore.Encoder) *LogEncoder {
	return &LogEncoder{
		LogEncoderConfig: e.LogEncoderConfig,
		redactor:         redactor{ObjectEncoder: encoder},
		json:             &logging.JSONEncoder{Encoder: encoder, LogEncoderConfig: e.LogEncoderConfig},
	}
}

// EncodeEntry is part of zapcore.Encoder.
func (e *LogEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	encoder := e.json.Encoder.Clone()
	redacted := &redactor{ObjectEncoder: encoder}
	for i := range fields {
		fields[i].AddTo(redacted)
	}
	entry.Message = maskText(entry.Message)
	return encoder.EncodeEntry(entry, nil)
}

// UnmarshalCaddyfile reads `card`, with the options of Caddy's json format in
// an optional block.
func (e *LogEncoder) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.Errf("unexpected argument %q", d.Val())
	}
	return e.LogEncoderConfig.UnmarshalCaddyfile(d)
}

// redactor passes log fields on without what must not be written.
type redactor struct {
	zapcore.ObjectEncoder
}

// Redacts reports whether an encoder that a log field was given writes the
// format `card`.
func Redacts(enc zapcore.ObjectEncoder) bool {
	_, redacts := enc.(*redactor)
	return redacts
}

// AddObject is part of zapcore.ObjectEncoder.
func (r *redactor) AddObject(key string, object zapcore.ObjectMarshaler) error {
	return r.ObjectEncoder.AddObject(key, zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		if isHeadersField(key) {
			return object.MarshalLogObject(&headerRedactor{enc})
		}
		return object.MarshalLogObject(&redactor{enc})
	}))
}

// AddString is part of zapcore.ObjectEncoder.
func (r *redactor) AddString(key, value string) {
	switch {
	case isTargetField(key) || looksLikeTarget(value):
		value = maskTarget(value)
	case key == "error":
		value = maskText(queryInText.ReplaceAllString(value, "?"+masked))
	}
	r.ObjectEncoder.AddString(key, value)
}

// AddReflected is part of zapcore.ObjectEncoder.
func (r *redactor) AddReflected(key string, value any) error {
	switch v := value.(type) {
	case http.Header:
		value = allowedHeaders(v)
	case map[string][]string:
		value = allowedHeaders(v)
	case *url.URL:
		value = maskTarget(v.String())
	}
	return r.ObjectEncoder.AddReflected(key, value)
}

// headerRedactor writes the headers of the list and leaves out the others.
type headerRedactor struct {
	zapcore.ObjectEncoder
}

// AddArray is part of zapcore.ObjectEncoder.
func (r *headerRedactor) AddArray(key string, values zapcore.ArrayMarshaler) error {
	if !loggedHeaders[strings.ToLower(key)] {
		return nil
	}
	return r.ObjectEncoder.AddArray(key, values)
}

// AddString is part of zapcore.ObjectEncoder.
func (r *headerRedactor) AddString(key, value string) {
	if loggedHeaders[strings.ToLower(key)] {
		r.ObjectEncoder.AddString(key, value)
	}
}

// AddReflected is part of zapcore.ObjectEncoder.
func (r *headerRedactor) AddReflected(key string, value any) error {
	if !loggedHeaders[strings.ToLower(key)] {
		return nil
	}
	return r.ObjectEncoder.AddReflected(key, value)
}

// loggedHeaders are the headers that explain a request and hold no secret.
var loggedHeaders = func() map[string]bool {
	names := []string{
		"Accept", "Accept-Encoding", "Allow", "Alt-Svc", "Cache-Control", "Connection", "Content-Encoding",
		"Content-Length", "Content-Type", "Date", "Expect", "Retry-After", "Server", "Traceparent",
		"Transfer-Encoding", "User-Agent", "Vary", "Via", "Www-Authenticate",
		"X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id",
		"X-Gateway-Key-Id", "X-Gateway-Operation", "X-Gateway-Tenant",
		"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[strings.ToLower(name)] = true
	}
	return set
}()

func allowedHeaders(h http.Header) http.Header {
	kept := make(http.Header)
	for name, values := range h {
		if loggedHeaders[strings.ToLower(name)] {
			kept[name] = values
		}
	}
	return kept
}

func isHeadersField(key string) bool {
	return key == "headers" || strings.HasSuffix(key, "_headers")
}

// queryInText finds the query of a target or URL that an error text quotes.
var queryInText = regexp.MustCompile(`\?[^\s"']+`)

// looksLikeTarget reports whether a value is a target or URL with a query.
func looksLikeTarget(value string) bool {
	return strings.Contains(value, "?") &&
		(strings.HasPrefix(value, "/") || strings.HasPrefix(value, "http://") || strings.HasPrefix(value, "https://"))
}

// isTargetField reports whether a field of Caddy's logs holds a request target
// or a URL.
func isTargetField(key string) bool {
	switch key {
	case "uri", "url", "path", "query", "target", "location":
		return true
	default:
		return strings.HasSuffix(key, "_uri") || strings.HasSuffix(key, "_url")
	}
}
