// Package peek reads what Caddy keeps to itself: private fields, listeners that wrap
// each other, and what the text of an error says. Each function names what is read, with which version of Caddy that
// was checked, and what happens where the field is gone; a test fails then.
//
// Begin with any function: each stands alone.
package peek

import (
	"net"
	"net/netip"
	"reflect"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap/zapcore"
)

// Admin returns the admin endpoint of the configuration that a context belongs to,
// as it was written; nil if the configuration does not mention it, or if there is no
// configuration, as in a test. known is false if the field is gone: then whoever asks
// must go on without.
//
// It reads cfg of caddy.Context (2.11.9).
func Admin(ctx caddy.Context) (admin *caddy.AdminConfig, known bool) {
	field := reflect.ValueOf(ctx).FieldByName("cfg")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*caddy.Config]() {
		return nil, false
	}
	if field.IsNil() {
		return nil, true
	}
	written := field.Elem().FieldByName("Admin")
	if written.IsNil() {
		return nil, true
	}
	written = written.Elem()
	return &caddy.AdminConfig{Disabled: written.FieldByName("Disabled").Bool(), Listen: written.FieldByName("Listen").String()}, true
}

// A Log is a log of a configuration.
type Log struct {
	Name             string
	Include, Exclude []string // loggers
	Formatted        bool     // by the encoder that was asked for, at any depth
	Unset            bool     // nobody has configured it: Caddy's own, which writes to the terminal
}

// Gets reports whether the log gets lines of a logger: the longest name decides.
func (l *Log) Gets(logger string) bool {
	longest := func(names []string) (n int) {
		for _, name := range names {
			if strings.HasPrefix(logger+".", name+".") {
				n = max(n, len(name))
			}
		}
		return n
	}
	in, out := longest(l.Include), longest(l.Exclude)
	return in > out || in == out && len(l.Include) == 0
}

// Logs returns the logs of the configuration that a context belongs to, except those that
// drop each line; none if there is no configuration, as in a test. known is false if a
// field is gone: what a log shows could then not be checked, so it must be an error.
//
// It reads cfg of caddy.Context, encoder and writerOpener of caddy.BaseLog, and the
// encoders that one of Caddy's wraps (2.11.9).
func Logs(ctx caddy.Context, encoder reflect.Type) (logs []Log, known bool) {
	field := reflect.ValueOf(ctx).FieldByName("cfg")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*caddy.Config]() {
		return nil, false
	}
	if field.IsNil() || field.Elem().FieldByName("Logging").IsNil() {
		return nil, true
	}
	for all := field.Elem().FieldByName("Logging").Elem().FieldByName("Logs").MapRange(); all.Next(); {
		from := all.Value().Elem()
		format, writer := from.FieldByName("encoder"), from.FieldByName("writerOpener")
		if !format.IsValid() || !writer.IsValid() {
			return nil, false
		}
		kind := writer.Elem().Type()
		if kind == reflect.TypeFor[*caddy.DiscardWriter]() {
			continue
		}
		log := Log{Name: all.Key().String(), Formatted: encodes(format, encoder)}
		for i := range from.FieldByName("Include").Len() {
			log.Include = append(log.Include, from.FieldByName("Include").Index(i).String())
		}
		for i := range from.FieldByName("Exclude").Len() {
			log.Exclude = append(log.Exclude, from.FieldByName("Exclude").Index(i).String())
		}
		log.Unset = log.Name == caddy.DefaultLoggerName && kind == reflect.TypeFor[caddy.StderrWriter]() && len(log.Include)+len(log.Exclude) == 0 &&
			from.FieldByName("Level").String() == ""
		logs = append(logs, log)
	}
	return logs, true
}

// encodes reports whether an encoder is of the type, or wraps one that is.
func encodes(encoder reflect.Value, want reflect.Type) bool {
	value := reflect.Indirect(encoder.Elem())
	if !value.IsValid() || encoder.Elem().Type() == want {
		return value.IsValid()
	}
	for i := 0; value.Kind() == reflect.Struct && i < value.NumField(); i++ {
		if value.Field(i).Type() == reflect.TypeFor[zapcore.Encoder]() && encodes(value.Field(i), want) {
			return true
		}
	}
	return false
}

// TrustedProxies returns whether a server has trusted proxies, and their addresses
// if they are a fixed list. While handlers are provisioned, Caddy has already moved
// them there from the exported field. known is false if the field is gone: that a
// client cannot choose its address could then not be checked, so it must be an error.
//
// It reads trustedProxies of caddyhttp.Server (2.11.9).
func TrustedProxies(server *caddyhttp.Server) (trusts bool, fixed []netip.Prefix, known bool) {
	field := reflect.ValueOf(server).Elem().FieldByName("trustedProxies")
	if !field.IsValid() || field.Kind() != reflect.Interface {
		return false, nil, false
	}
	if field.IsNil() {
		return server.TrustedProxiesUnix, nil, true
	}
	static := reflect.Indirect(field.Elem())
	if static.Type() != reflect.TypeFor[caddyhttp.StaticIPRange]() {
		return true, nil, true
	}
	for i := range static.FieldByName("Ranges").Len() {
		if prefix, err := caddyhttp.CIDRExpressionToPrefix(static.FieldByName("Ranges").Index(i).String()); err == nil {
			fixed = append(fixed, prefix)
		}
	}
	return true, fixed, true
}

// Socket returns the TCP socket below the listeners of Caddy and crypto/tls, of
// which each embeds the next one and has no method that returns it; nil if there is
// none. Without it a reload can reset connections that have just been made.
//
// It reads Listener of crypto/tls and of caddy's shared listeners (2.11.9).
func Socket(l net.Listener) syscall.RawConn {
	for l != nil {
		if tcp, ok := l.(*net.TCPListener); ok {
			raw, _ := tcp.SyscallConn()
			return raw
		}
		l, _ = embedded(l, "Listener").(net.Listener)
	}
	return nil
}

// Connection returns the socket of a connection, below TLS, the PROXY protocol and what
// Caddy wraps around them; nil if there is none. Without it a client that closes its side
// is taken for one that has gone.
//
// It reads Conn of caddyhttp's http2Conn and tlsStateConn (2.11.9).
func Connection(c net.Conn) syscall.RawConn {
	for c != nil {
		switch outer := c.(type) {
		case syscall.Conn:
			raw, _ := outer.SyscallConn()
			return raw
		case interface{ NetConn() net.Conn }: // crypto/tls
			c = outer.NetConn()
		case interface{ Raw() net.Conn }: // go-proxyproto
			c = outer.Raw()
		default:
			c, _ = embedded(c, "Conn").(net.Conn)
		}
	}
	return nil
}

// embedded returns the value of an exported field, or nil.
func embedded(outer any, field string) any {
	value := reflect.Indirect(reflect.ValueOf(outer))
	if value.Kind() != reflect.Struct {
		return nil
	}
	inner := value.FieldByName(field)
	if !inner.IsValid() || !inner.CanInterface() {
		return nil
	}
	return inner.Interface()
}

// LoadRefused tells the end of a configuration that Caddy refused, or could not start,
// from the end of one that another has replaced, and from none. The cause is that of
// the end of its context.
//
// It reads the texts that caddy.run and caddy.provisionContext put before the cause
// (2.11.9).
func LoadRefused(cause error) bool {
	return cause != nil && strings.HasPrefix(cause.Error(), "configuration error: ") || StartFailed(cause)
}

// StartFailed reports whether a configuration ended because it was in order and
// could not be started.
func StartFailed(cause error) bool {
	return cause != nil && strings.HasPrefix(cause.Error(), "configuration start error: ")
}
