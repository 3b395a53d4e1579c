// Package cardlog is the log format `card`: Caddy's JSON encoder, and what it
// must not write.
package cardlog

import (
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
// written. The values of a query are masked, and so is what may be a card
// number in any text. Of an error that a client or an upstream may have caused
// only its kind is written, because libraries quote in it what was sent.
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
	redacted := &redactor{ObjectEncoder: encoder, trusted: speaksWithNobody(entry.LoggerName)}
	for i := range fields {
		redacted.addField(&fields[i])
	}
	entry.Message = message(&entry)
	entry.LoggerName = Mask(entry.LoggerName)
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

// trustedLoggers are those, with what is below them, whose errors quote neither
// a client nor an upstream: Caddy's own, those that speak with operators and
// certificate authorities, and the gateway's, which reduces errors itself.
var trustedLoggers = nameSet("", "admin", "card_gateway", "events", "pki", "tls")

// speaksWithNobody reports whether the errors that a logger writes may be
// written as they are.
func speaksWithNobody(logger string) bool {
	first, rest, _ := strings.Cut(logger, ".")
	if first == "tls" && (strings.HasPrefix(rest, "handshake") || strings.HasPrefix(rest, "on_demand")) {
		return false
	}
	return trustedLoggers[first]
}

// message returns what may be written of the message of a log line. Messages
// are texts of programs, except where Caddy takes an error for one.
func message(entry *zapcore.Entry) string {
	logger, text := entry.LoggerName, entry.Message
	switch {
	case strings.HasPrefix(logger, "http.log.error"):
		return failureText(text)
	case strings.HasPrefix(logger, "http.stdlib"):
		return failureText(text) + stackOf(text)
	case logger == "" && entry.Level <= zapcore.InfoLevel:
		// Caddy takes the standard library's log for its own, see [StandardLog],
		// and writes it at this level. Above it are Caddy's own errors, such as
		// why a configuration is refused.
		if kind, known := kindOf(text); known {
			return kind
		}
	}
	return maskText(text)
}

// stackOf returns the stack behind the first line of a report that a handler
// panicked, or nothing. A stack names functions and files, never texts.
func stackOf(report string) string {
	at := strings.LastIndex(report, "\ngoroutine ")
	if at < 0 {
		return ""
	}
	return Mask(report[at:])
}
