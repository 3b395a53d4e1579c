package cardlog

import (
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// BenchmarkAccessLine is an ordinary line of the access log: a signed POST and
// its answer.
func BenchmarkAccessLine(b *testing.B) {
	encoder := new(LogEncoder)
	if err := encoder.Provision(caddy.Context{}); err != nil {
		b.Fatal(err)
	}
	r := &http.Request{
		Method: "POST", Host: "api.example", RequestURI: "/api/v1/cards/0b0e9a56-7f0b-4d57-9a5e-3f6a5e2f8a11/freeze", Proto: "HTTP/1.1", RemoteAddr: "203.0.113.195:50000",
		Header: http.Header{
			"User-Agent": {"card-client/1.4 Go-http-client/1.1"}, "Accept": {"application/json"}, "Content-Type": {"application/json"}, "Content-Length": {"312"},
			"X-Api-Key": {"ck_live_0123456789abcdefghij"}, "X-Timestamp": {"1795824000"}, "X-Nonce": {"0b0e9a567f0b4d579a5e3f6a5e2f8a11"},
			"X-Body-Hash": {"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}, "X-Signature": {"47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
			"Accept-Encoding": {"gzip"}, "X-Request-Id": {"K5QXG2LOM5ZXIZLSEBUW4IDUNB"},
		},
	}
	answer := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {"812"}, "Date": {"Sat, 28 Nov 2026 05:58:23 GMT"}, "X-Request-Id": {"K5QXG2LOM5ZXIZLSEBUW4IDUNB"},
		"Cache-Control": {"private, no-store"}, "X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"59"}, "X-Ratelimit-Reset": {"1795824001"}, "Server": {"Caddy"},
	}
	fields := []zapcore.Field{
		zap.Int("bytes_read", 312), zap.String("user_id", ""), zap.Duration("duration", 1e6), zap.Int("size", 812), zap.Int("status", 201),
		zap.Object("resp_headers", caddyhttp.LoggableHTTPHeader{Header: answer}),
		zap.Inline(zapcore.ObjectMarshalerFunc(func(enc zapcore.ObjectEncoder) error {
			enc.AddString("request_id", "K5QXG2LOM5ZXIZLSEBUW4IDUNB")
			enc.AddString("outcome", "accepted")
			enc.AddString("operation", "freeze_card")
			enc.AddString("key_id", "ck_live_0123456789abcdefghij")
			enc.AddString("tenant", "acme")
			return nil
		})),
	}
	b.ReportAllocs()
	for b.Loop() {
		child := encoder.Clone()
		zap.Object("request", caddyhttp.LoggableHTTPRequest{Request: r}).AddTo(child)
		line, err := child.EncodeEntry(zapcore.Entry{LoggerName: "http.log.access.log0", Message: "handled request"}, fields)
		if err != nil {
			b.Fatal(err)
		}
		line.Free()
	}
}
