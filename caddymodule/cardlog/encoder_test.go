package cardlog

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"
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

// Encoders of Caddy are nested at random around the format card: filters that rename,
// delete and replace, and appended fields. No secret is written, by whatever way it
// comes, and what explains a request stays.
func TestCardInsideOtherEncoders(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	filters := rapid.SampledFrom([]string{
		`"request>method":{"filter":"delete"}`, `"request>headers":{"filter":"rename","name":"other"}`, `"request":{"filter":"rename","name":"r"}`,
		`"request>remote_port":{"filter":"hash"}`, `"request>headers>X-Anything":{"filter":"replace","value":"-"}`, `"resp_headers":{"filter":"rename","name":"h"}`,
	})
	var wrapped func(t *rapid.T, depth int) string
	wrapped = func(t *rapid.T, depth int) string {
		if depth == 0 {
			return `{"format":"card"}`
		}
		inner := wrapped(t, depth-1)
		if rapid.Bool().Draw(t, "append") {
			return `{"format":"append","wrap":` + inner + `,"fields":{"node":"n1"}}`
		}
		return `{"format":"filter","wrap":` + inner + `,"fields":{` + filters.Draw(t, "filter") + `}}`
	}
	request := zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: canaryRequest(), ShouldLogCredentials: true})
	answer := zap.Object("resp_headers", caddyhttp.LoggableHTTPHeader{Header: canaryRequest().Header, ShouldLogCredentials: true})
	rapid.Check(t, func(t *rapid.T) {
		config := wrapped(t, rapid.IntRange(0, 4).Draw(t, "depth"))
		holder := struct {
			Raw json.RawMessage `caddy:"namespace=caddy.logging.encoders inline_key=format"`
		}{json.RawMessage(config)}
		module, err := ctx.LoadModule(&holder, "Raw")
		if err != nil {
			t.Fatal(err)
		}
		fields := []zapcore.Field{request, answer, zap.String("X-Signature", "canary"), zap.Any("x_nonce", "canary"), zap.Strings("Cookie", []string{"canary"}), zap.Int("status", 401)}
		line, err := module.(zapcore.Encoder).EncodeEntry(zapcore.Entry{LoggerName: "http.log.access", Message: "handled request"}, fields)
		if err != nil {
			t.Fatal(err)
		}
		if text := line.String(); strings.Contains(text, "canary") || strings.Contains(text, "4111") || !strings.Contains(text, `"status":401`) {
			t.Fatalf("%s writes %s", config, text)
		}
	})
}
