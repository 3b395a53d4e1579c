package cardlog

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"
)

// lineOf returns the line that the encoder writes for an entry, as text and
// decoded.
func lineOf(t interface{ Fatal(...any) }, entry zapcore.Entry, with []zapcore.Field, fields ...zapcore.Field) (string, map[string]any) {
	encoder := new(LogEncoder)
	if err := encoder.Provision(caddy.Context{}); err != nil {
		t.Fatal(err)
	}
	child := encoder.Clone()
	for _, f := range with {
		f.AddTo(child)
	}
	line, err := child.EncodeEntry(entry, fields)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(line.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	return line.String(), doc
}

// texts calls visit with every name and text in a JSON value, and where it is.
func texts(at string, value any, visit func(at, text string)) {
	switch v := value.(type) {
	case string:
		visit(at, v)
	case []any:
		for _, inner := range v {
			texts(at, inner, visit)
		}
	case map[string]any:
		for name, inner := range v {
			visit(at, name)
			texts(at+"."+name, inner, visit)
		}
	}
}

// No line shows a card number that is in any text from outside, in any form.
func TestNoLineShowsACardNumber(t *testing.T) {
	names := []string{
		"User-Agent", "Accept", "Content-Type", "Traceparent", "X-Request-Id", "X-Forwarded-For", "Via", "Server", "Connection",
		"Expect", "Date", "X-Ratelimit-Limit", "X-Gateway-Tenant",
	}
	loggers := []string{"", "net", "http.log.access.log0", "http.log.error", "http.stdlib", "http.handlers.reverse_proxy", "card_gateway.refusals", "admin.api", "events"}
	rapid.Check(t, func(t *rapid.T) {
		outside := func() string {
			around := rapid.StringMatching(`[a-z0-9 /.-]{0,4}`)
			for {
				text := around.Draw(t, "before") + disguised(t, cards(t)) + around.Draw(t, "after")
				if !isAddress(text) { // which is logged in some fields, whatever digits it has
					return text
				}
			}
		}
		r := &http.Request{Method: outside(), Host: outside(), RequestURI: "/" + outside(), Proto: "HTTP/1.1", RemoteAddr: "192.0.2.1:1234", Header: make(http.Header)}
		for _, name := range names {
			r.Header.Add(name, "x")
			r.Header.Add(name, outside())
		}
		request := zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r})
		field := outside()
		_, doc := lineOf(t, zapcore.Entry{LoggerName: rapid.SampledFrom(loggers).Draw(t, "logger"), Message: outside()},
			[]zapcore.Field{request, zap.String("in_with", field), zap.Error(errors.New(field))},
			request, zap.Object("resp_headers", caddyhttp.LoggableHTTPHeader{Header: r.Header}),
			zap.String("text", field), zap.String("path", field), zap.String("client_ip", field), zap.ByteString("bytes", []byte(field)),
			zap.Binary("binary", []byte(field)), zap.Strings("texts", []string{"x", field}), zap.NamedError("write_error", errors.New(field)),
			zap.Errors("errors", []error{errors.New(field)}), zap.Error(errors.Join(errors.New(field), errors.New("x"))),
			zap.Any("map", map[string]any{field: []string{field}, "n": json.Number("4111111111111111")}), zap.Any("headers", r.Header),
			zap.Reflect("struct", struct{ A any }{field}), zap.Dict("dict", zap.Dict("inner", zap.String("text", field))),
			zap.Array("array", zapcore.ArrayMarshalerFunc(func(enc zapcore.ArrayEncoder) error {
				enc.AppendByteString([]byte(field))
				_ = enc.AppendReflected([]string{field})
				return enc.AppendArray(caddyhttp.LoggableStringArray{field})
			})))
		texts("", doc, func(at, text string) {
			if survives(text) {
				t.Errorf("%s shows %q", at, text)
			}
		})
	})
}

// A line keeps texts that explain a request and hold no card number.
func TestLineKeepsWhatIsNoCardNumber(t *testing.T) {
	header := http.Header{
		"User-Agent":      {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36"},
		"X-Forwarded-For": {"203.0.113.195, 198.51.100.178"}, "Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}
	r := &http.Request{Method: "GET", Host: "192.168.100.100:8443", RequestURI: "/api/v1/cards/0b0e9a56-7f0b-4d57-9a5e-3f6a5e2f8a11", Header: header, RemoteAddr: "[2001:4860:4860::8888]:50000"}
	line, _ := lineOf(t, zapcore.Entry{LoggerName: "http.log.access", Message: "handled request"}, nil,
		zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r}), zap.String("key_id", "1234567890123456"), zap.String("tenant", "20261128123456"))
	for _, want := range []string{
		header["User-Agent"][0], header["X-Forwarded-For"][0], header["Traceparent"][0], r.Host, r.RequestURI, "2001:4860:4860::8888",
		`"key_id":"1234567890123456"`, `"tenant":"20261128123456"`,
	} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	line, _ = lineOf(t, zapcore.Entry{LoggerName: "card_gateway.audit"}, nil,
		zap.Reflect("new", json.RawMessage(`["192.168.100.100/32","2001:1234:5678:9012::/64"]`)), zap.Int64("big", 4111111111111111))
	if strings.Contains(line, masked) {
		t.Error(line)
	}
}

// A client's header with a name that only the gateway writes is not logged.
func TestClientsOwnGatewayHeadersAreNotLogged(t *testing.T) {
	header := http.Header{
		"X-Gateway-Tenant": {"forged"}, "X-Gateway-Key-Id": {"forged"}, "X-Gateway-Operation": {"forged"}, "X_gateway_tenant": {"forged"},
		"X-Ratelimit-Limit": {"forged"}, "User-Agent": {"curl/8"},
	}
	line, _ := lineOf(t, zapcore.Entry{LoggerName: "http.log.access"}, nil,
		zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: &http.Request{Header: header}}),
		zap.Object("headers", caddyhttp.LoggableHTTPHeader{Header: header}), zap.Any("reflected", header))
	if strings.Contains(line, "forged") || !strings.Contains(line, "curl/8") {
		t.Error(line)
	}
	line, _ = lineOf(t, zapcore.Entry{LoggerName: "http.log.access"}, nil,
		zap.Object("resp_headers", caddyhttp.LoggableHTTPHeader{Header: http.Header{"X-Ratelimit-Limit": {"60"}}}))
	if !strings.Contains(line, "60") {
		t.Error(line)
	}
}

// headersOfTheirOwn are headers that a module logs with its own marshaler.
type headersOfTheirOwn struct{}

func (headersOfTheirOwn) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("User-Agent", "curl/x 4111 1111 1111 1111")
	enc.AddString("X-Signature", "canary")
	enc.AddByteString("Cookie", []byte("canary"))
	_ = enc.AddReflected("Authorization", "canary")
	_ = enc.AddReflected("Accept", []string{"a/b"})
	return enc.AddArray("X-Nonce", caddyhttp.LoggableStringArray{"canary"})
}

func TestHeadersInAnyForm(t *testing.T) {
	line, _ := lineOf(t, zapcore.Entry{}, nil, zap.Object("their_headers", headersOfTheirOwn{}))
	if strings.Contains(line, "canary") || strings.Contains(line, "1111") || !strings.Contains(line, "curl/x") || !strings.Contains(line, "a/b") {
		t.Error(line)
	}
}
