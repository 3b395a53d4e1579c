// Package cardlog is the log format `card`: Caddy's JSON encoder, without
// credentials, card numbers and texts from outside.
//
// Begin with [Mask], which every text goes through; encoder has the format.
package cardlog

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/logging"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

func init() {
	caddy.RegisterModule(LogEncoder{})
}

// LogEncoder is the log format `card`: Caddy's JSON encoder that leaves out
// credentials and card data. Caddy copies a request for its log before any
// handler runs, so only the encoder can do this.
//
// Only a fixed list of headers of requests and answers is written. The values of
// a query are masked, and in any text what may be a card number. If a client or
// an upstream may have caused an error, only its kind is written, because the
// texts of libraries quote what was sent.
type LogEncoder struct {
	logging.LogEncoderConfig

	redactor `json:"-"`
	json     *logging.JSONEncoder
}

// NewJSON returns an encoder that writes as the format card does, with the given
// names of fields.
func NewJSON(config zapcore.EncoderConfig) zapcore.Encoder {
	return new(LogEncoder).with(zapcore.NewJSONEncoder(config))
}

// CaddyModule returns the Caddy module information.
func (LogEncoder) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.encoders.card", New: func() caddy.Module { return new(LogEncoder) }}
}

// Provision makes Caddy's JSON encoder.
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

// trustedLoggers are the loggers whose errors quote neither a client nor an
// upstream, with the loggers below them: Caddy's core, those for operators and
// certificate authorities, and the gateway's, which reduces errors itself.
var trustedLoggers = nameSet("", "admin", "card_gateway", "events", "pki", "tls")

// speaksWithNobody reports whether the errors of a logger may be written in full,
// because it does not deal with clients or upstreams.
func speaksWithNobody(logger string) bool {
	first, rest, _ := strings.Cut(logger, ".")
	if first == "tls" && (strings.HasPrefix(rest, "handshake") || strings.HasPrefix(rest, "on_demand")) {
		return false
	}
	return trustedLoggers[first]
}

// message returns the part of a line's message that may be written. Messages are
// texts of programs, but Caddy uses an error as the message of some lines.
func message(entry *zapcore.Entry) string {
	logger, text := entry.LoggerName, entry.Message
	switch {
	case strings.HasPrefix(logger, "http.log.error"):
		return failureText(text)
	case strings.HasPrefix(logger, "http.stdlib"):
		return failureText(text) + stackOf(text)
	case logger == "" && entry.Level <= zapcore.InfoLevel:
		// Caddy writes the standard library's log at this level, unless
		// [StandardLog] is in place. Higher levels are Caddy's own errors, such as
		// the reason why a configuration is refused.
		if kind, known := kindOf(text); known {
			return kind
		}
	}
	return maskText(text)
}

// stackOf returns the stack in the report of a panic, or "". A stack holds
// functions and files, never texts.
func stackOf(report string) string {
	at := strings.LastIndex(report, "\ngoroutine ")
	if at < 0 {
		return ""
	}
	return Mask(report[at:])
}

// StandardLog is a writer for the standard library's log. For each line it writes
// the kind of failure, at the level info. It drops the text, because net/http
// quotes in it bytes that an upstream sent unasked.
type StandardLog struct {
	// Logger returns the logger of the current configuration.
	Logger func() *zap.Logger
}

// Write is part of io.Writer. It never fails.
func (l StandardLog) Write(line []byte) (int, error) {
	l.Logger().Info("the standard library reports: " + failureText(string(line)))
	return len(line), nil
}
