package cardlog

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logged returns the line that the encoder writes for the fields, some of
// them given with With, as Caddy's loggers do.
func logged(t *testing.T, with, fields []zapcore.Field) string {
	t.Helper()
	line, _ := lineOf(t, zapcore.Entry{Message: "handled request"}, with, fields...)
	return line
}

func canaryRequest() *http.Request {
	r := httptest.NewRequest("POST", "/api/v1/cards/4111111111111111?token=canary-query&canary-name%20x", nil)
	r.TLS = &tls.ConnectionState{ServerName: "api.example"}
	for _, name := range []string{"X-Api-Key", "X-Signature", "X-Nonce", "X-Body-Hash", "Authorization", "Cookie", "X-Anything"} {
		r.Header.Set(name, "canary-header")
	}
	r.Header["x_signature"] = []string{"canary-header"}
	r.Header.Set("User-Agent", "curl/8")
	return r
}

func TestLogFormatRedacts(t *testing.T) {
	r := canaryRequest()
	request := zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r, ShouldLogCredentials: true})
	headers := zap.Object("headers", caddyhttp.LoggableHTTPHeader{Header: r.Header, ShouldLogCredentials: true})
	target, _ := url.Parse("http://u/x?token=canary-query")
	for name, line := range map[string]string{
		"fields":     logged(t, nil, []zapcore.Field{request, headers, zap.String("uri", r.RequestURI)}),
		"with":       logged(t, []zapcore.Field{request, zap.Object("resp_headers", caddyhttp.LoggableHTTPHeader{Header: r.Header})}, nil),
		"reflected":  logged(t, nil, []zapcore.Field{zap.Any("h", r.Header), zap.Any("u", target), zap.Reflect("m", map[string][]string(r.Header)), zap.Error(errors.New(`Get "http://u/x?token=canary-query": dial`))}),
		"nested":     logged(t, nil, []zapcore.Field{zap.Dict("outer", request, zap.Dict("inner", headers))}),
		"namespaced": logged(t, nil, []zapcore.Field{zap.Namespace("ns"), request}),
	} {
		if strings.Contains(line, "canary") || strings.Contains(line, "4111") {
			t.Errorf("%s: %s", name, line)
		}
		if !strings.Contains(line, "curl/8") && name != "reflected" {
			t.Errorf("%s: what explains a request is lost: %s", name, line)
		}
	}
}

func TestLogFormatKeepsWhatExplains(t *testing.T) {
	line := logged(t, nil, []zapcore.Field{
		zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: canaryRequest()}), zap.Int("status", 401),
	})
	for _, want := range []string{`"method":"POST"`, `"uri":"/api/v1/cards/***?token=***&***"`, `"status":401`, `"server_name":"api.example"`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
}

// The gateway's own fields notice whether the encoder is the format card.
func TestRedacts(t *testing.T) {
	var found []bool
	field := zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
		found = append(found, Redacts(enc))
		return nil
	}))
	logged(t, nil, []zapcore.Field{field})
	if _, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{}).EncodeEntry(zapcore.Entry{}, []zapcore.Field{field}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, []bool{true, false}) {
		t.Errorf("found %v", found)
	}
}
