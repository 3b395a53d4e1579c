package cardlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap/zapcore"
)

// redactor passes log fields on, and masks or drops what must not be written.
type redactor struct {
	zapcore.ObjectEncoder
	trusted bool // errors quote neither a client nor an upstream
	// within is the field of headers whose members come to this encoder now. An encoder
	// that wraps this one, such as Caddy's filter, writes the members of an object to it
	// and not to the encoder that it was given for them.
	within string
}

// addField adds a field. Here the error itself is known, not only its text, so
// its kind can be found exactly.
func (r *redactor) addField(field *zapcore.Field) {
	if err, is := field.Interface.(error); is && field.Type == zapcore.ErrorType && !r.trusted {
		r.ObjectEncoder.AddString(field.Key, Failure(err))
		return
	}
	field.AddTo(r)
}

// AddObject is part of zapcore.ObjectEncoder.
func (r *redactor) AddObject(key string, object zapcore.ObjectMarshaler) error {
	if h, is := object.(caddyhttp.LoggableHTTPHeader); is {
		return r.ObjectEncoder.AddObject(key, headers{key, h.Header})
	}
	return r.ObjectEncoder.AddObject(key, zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		nested := &redactor{ObjectEncoder: enc, trusted: r.trusted}
		if isHeadersField(key) {
			defer func(before string) { r.within = before }(r.within)
			r.within = key
			return object.MarshalLogObject(headerRedactor{zapcore.NewMapObjectEncoder(), nested, key})
		}
		return object.MarshalLogObject(nested)
	}))
}

// drops reports whether a member of headers is not written.
func (r *redactor) drops(key string) bool { return r.within != "" && !logsHeader(r.within, key) }

// isHeader reports whether an array holds the values of a header: Caddy has this type for
// them alone, and an encoder around this one may have renamed the field that they are in.
func isHeader(array zapcore.ArrayMarshaler) bool {
	_, is := array.(caddyhttp.LoggableStringArray)
	return is
}

// AddArray is part of zapcore.ObjectEncoder.
func (r *redactor) AddArray(key string, array zapcore.ArrayMarshaler) error {
	if r.drops(key) || isHeader(array) && key != "transfer_encoding" && !logsHeader("resp_headers", key) {
		return nil
	}
	if isCredential(key) {
		r.ObjectEncoder.AddString(key, masked)
		return nil
	}
	return r.ObjectEncoder.AddArray(key, zapcore.ArrayMarshalerFunc(func(enc zapcore.ArrayEncoder) error {
		return array.MarshalLogArray(&arrayRedactor{enc, redactor{trusted: r.trusted}, key})
	}))
}

// AddString is part of zapcore.ObjectEncoder.
func (r *redactor) AddString(key, value string) {
	if r.drops(key) {
		return
	}
	r.ObjectEncoder.AddString(key, r.text(key, value))
}

// AddByteString is part of zapcore.ObjectEncoder.
func (r *redactor) AddByteString(key string, value []byte) { r.AddString(key, string(value)) }

// AddBinary is part of zapcore.ObjectEncoder. It masks the value, because the
// meaning of the bytes is not known.
func (r *redactor) AddBinary(key string, _ []byte) { r.ObjectEncoder.AddString(key, masked) }

// AddReflected is part of zapcore.ObjectEncoder.
func (r *redactor) AddReflected(key string, value any) error {
	if r.drops(key) {
		return nil
	}
	return r.ObjectEncoder.AddReflected(key, r.reflected(key, value))
}

// text returns the form of a text that may be written.
func (r *redactor) text(key, value string) string {
	switch {
	case isCredential(key):
		return masked
	case isErrorField(key):
		if !r.trusted {
			return failureText(value)
		}
		return maskText(value)
	case isTargetField(key) || looksLikeTarget(value):
		return maskTarget(value)
	case !mayHide(value) || gatewayFields[key]:
		return value
	case (r.trusted || addressFields[key]) && isAddress(value):
		return value
	default:
		return Mask(value)
	}
}

// reflected returns the form of a value of any type that may be written.
func (r *redactor) reflected(key string, value any) any {
	switch v := value.(type) {
	case nil:
		return nil
	case http.Header:
		return maps.Collect(headers{key, v}.logged())
	case map[string][]string:
		return maps.Collect(headers{key, v}.logged())
	case *url.URL:
		return maskTarget(v.String())
	}
	if isCredential(key) {
		return masked
	}
	if isErrorField(key) && !r.trusted {
		return fmt.Sprintf("%s (%T)", unnamed, value)
	}
	text, err := json.Marshal(value)
	if err != nil || !mayHide(string(text)) {
		return value // the encoder fails on it too
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return masked
	}
	return r.plain(key, plain)
}

// plain returns the form of a JSON value that may be written.
func (r *redactor) plain(key string, value any) any {
	switch v := value.(type) {
	case string:
		return r.text(key, v)
	case json.Number:
		if HidesCardNumber(v.String()) {
			return masked
		}
	case []any:
		for i := range v {
			v[i] = r.plain(key, v[i])
		}
	case map[string]any:
		kept := make(map[string]any, len(v))
		for name, inner := range v {
			kept[Mask(name)] = r.plain(name, inner)
		}
		return kept
	}
	return value
}

// arrayRedactor is a redactor for the elements of an array.
type arrayRedactor struct {
	zapcore.ArrayEncoder
	redactor redactor
	key      string
}

// AppendString is part of zapcore.ArrayEncoder.
func (a *arrayRedactor) AppendString(value string) {
	a.ArrayEncoder.AppendString(a.redactor.text(a.key, value))
}

// AppendByteString is part of zapcore.ArrayEncoder.
func (a *arrayRedactor) AppendByteString(value []byte) { a.AppendString(string(value)) }

// AppendReflected is part of zapcore.ArrayEncoder.
func (a *arrayRedactor) AppendReflected(value any) error {
	return a.ArrayEncoder.AppendReflected(a.redactor.reflected(a.key, value))
}

// AppendObject is part of zapcore.ArrayEncoder.
func (a *arrayRedactor) AppendObject(object zapcore.ObjectMarshaler) error {
	return a.ArrayEncoder.AppendObject(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		return object.MarshalLogObject(&redactor{ObjectEncoder: enc, trusted: a.redactor.trusted})
	}))
}

// AppendArray is part of zapcore.ArrayEncoder.
func (a *arrayRedactor) AppendArray(array zapcore.ArrayMarshaler) error {
	return a.ArrayEncoder.AppendArray(zapcore.ArrayMarshalerFunc(func(enc zapcore.ArrayEncoder) error {
		return array.MarshalLogArray(&arrayRedactor{enc, a.redactor, a.key})
	}))
}

// gatewayFields hold values that operators have set or the gateway has made,
// never values of a client.
var gatewayFields = nameSet("key_id", "tenant", "revision")

// addressFields hold an address that Caddy has parsed.
var addressFields = nameSet("remote_ip", "client_ip")

// isErrorField reports whether a field holds the text of an error. zap adds
// Verbose to the name of an error for its long form.
func isErrorField(key string) bool {
	return key == "err" || key == "msg" || strings.HasSuffix(key, "error") || strings.HasSuffix(key, "Error") ||
		strings.HasSuffix(key, "Verbose")
}

// isTargetField reports whether a field of Caddy's logs holds a request target
// or a URL.
func isTargetField(key string) bool {
	switch key {
	case "uri", "url", "path", "query", "target", "location":
		return true
	}
	return strings.HasSuffix(key, "_uri") || strings.HasSuffix(key, "_url")
}

// looksLikeTarget reports whether a value is a target or URL with a query.
func looksLikeTarget(value string) bool {
	return strings.Contains(value, "?") &&
		(strings.HasPrefix(value, "/") || strings.HasPrefix(value, "http://") || strings.HasPrefix(value, "https://"))
}

// loggedHeaders are the headers that explain a request or an answer and hold
// no secret. Headers that only the gateway may write are not among them: in the
// log, a client's own header would look as if the gateway had written it.
var loggedHeaders = nameSet(
	"Accept", "Accept-Encoding", "Allow", "Alt-Svc", "Cache-Control", "Connection", "Content-Encoding",
	"Content-Length", "Content-Type", "Date", "Expect", "Retry-After", "Server", "Traceparent",
	"Transfer-Encoding", "User-Agent", "Vary", "Via", "Www-Authenticate",
	"X-Forwarded-For", "X-Forwarded-Proto", "X-Request-Id",
)

// answerHeaders are further headers that are logged of answers.
var answerHeaders = nameSet("X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset")

// credentials are fields that are never written, wherever they stand and whatever an
// encoder around this one calls the object that they are in.
var credentials = nameSet("x-api-key", "x-signature", "x-nonce", "x-body-hash", "x-gateway-assertion", "authorization",
	"proxy-authorization", "cookie", "set-cookie")

// isCredential reports whether a field holds a credential, by its name.
func isCredential(key string) bool {
	if len(key) < len("cookie") || len(key) > len("x-gateway-assertion") {
		return false
	}
	return credentials[strings.ReplaceAll(strings.ToLower(key), "_", "-")]
}

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

// logged returns the headers that are written, masked.
func (h headers) logged() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		for name, values := range h.Header {
			if logsHeader(h.field, name) && !yield(name, maskAll(values)) {
				return
			}
		}
	}
}

// MarshalLogObject is part of zapcore.ObjectMarshaler.
func (h headers) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	for name, values := range h.logged() {
		if err := enc.AddArray(name, caddyhttp.LoggableStringArray(values)); err != nil {
			return err
		}
	}
	return nil
}

// headerRedactor writes the headers of the list and drops the others. It is for
// modules that log headers with their own marshaler.
type headerRedactor struct {
	zapcore.ObjectEncoder // receives fields that are dropped
	to                    *redactor
	field                 string
}

// AddArray is part of zapcore.ObjectEncoder.
func (r headerRedactor) AddArray(name string, values zapcore.ArrayMarshaler) error {
	if !logsHeader(r.field, name) {
		return nil
	}
	return r.to.AddArray(name, values)
}

// AddString is part of zapcore.ObjectEncoder.
func (r headerRedactor) AddString(name, value string) {
	if logsHeader(r.field, name) {
		r.to.AddString(name, value)
	}
}

// AddReflected is part of zapcore.ObjectEncoder.
func (r headerRedactor) AddReflected(name string, value any) error {
	if !logsHeader(r.field, name) {
		return nil
	}
	return r.to.AddReflected(name, value)
}
