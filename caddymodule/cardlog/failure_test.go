package cardlog

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

// rawIssuer answers every connection with these bytes, then closes it.
func rawIssuer(t *testing.T, answer string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, answer)
			}()
		}
	}()
	return "http://" + listener.Addr().String() + "/"
}

// Errors of net/http that quote a card number from an answer are written as their
// kinds.
func TestFailureOfRawIssuer(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for answer, want := range map[string]string{
		"canary\r\n\r\n":                                                              "malformed HTTP response",
		"HTTP/1.1 4111canary x\r\n\r\n":                                               "malformed HTTP status code",
		"HTTP/canary 200 OK\r\n\r\n":                                                  "malformed HTTP version",
		head + "cvv canary\r\n\r\n":                                                   "malformed header lines",
		head + "Content-Length: canary\r\n\r\n":                                       "invalid Content-Length",
		head + "Transfer-Encoding: canary\r\n\r\n":                                    "unsupported transfer encoding",
		head + "Transfer-Encoding: chunked\r\n\r\ncanary\r\n":                         "malformed chunked encoding",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\ncvv canary\r\n\r\n": "malformed header lines",
		head + "Content-Length: 100\r\n\r\ncanary":                                    "unexpected EOF",
		"":                                   "EOF",
		"\x15\x03\x01\x00\x02\x02\x28canary": "the upstream speaks TLS, HTTP was expected",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\ncvv: canary\r\n": "invalid trailer",
	} {
		response, err := http.Get(rawIssuer(t, answer))
		if err == nil {
			_, err = io.ReadAll(response.Body)
			_ = response.Body.Close()
		}
		if err == nil {
			t.Errorf("%q is an answer", answer)
			continue
		}
		if got := Failure(fmt.Errorf("reading: %w", err)); got != want {
			t.Errorf("%q: %q, want %q, of %v", answer, got, want, err)
		}
	}
}

func TestFailure(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 9000}, Err: errors.New("connect: connection refused")}
	for want, err := range map[string]error{
		"dial tcp 10.0.0.5:9000: connection refused":                  fmt.Errorf("the canary: %w", refused),
		"the request was canceled":                                    context.Canceled,
		"timeout":                                                     context.DeadlineExceeded,
		"the certificate is signed by an unknown authority":           errors.New("tls: failed to verify certificate: x509: certificate signed by unknown authority (canary)"),
		"TLS handshake: the peer does not speak TLS":                  tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"},
		"our own words":                                               fmt.Errorf("canary: %w", PlainError("our own words")),
		"a failure whose text is not logged (*errors.errorString)":    fmt.Errorf("x: %w", errors.New("canary")),
		"a failure whose text is not logged (cardlog.secretiveError)": secretiveError{},
	} {
		if got := Failure(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

type secretiveError struct{}

func (secretiveError) Error() string { return "canary" }

// No text of an error that a client or an upstream may have caused is written, at
// any place in a line.
func TestNoLineShowsWhatAPeerSent(t *testing.T) {
	phrases := []string{"", `net/http: HTTP/1.x transport connection broken: malformed MIME header line: `, `Get "http://u/": EOF `, "tls: unknown: "}
	loggers := []string{"http.handlers.reverse_proxy", "http.log.error", "http.log.error.log0", "http.stdlib", "http.log.access", "layer4", "tls.handshake"}
	rapid.Check(t, func(t *rapid.T) {
		logger := rapid.SampledFrom(loggers).Draw(t, "logger")
		err := errors.New(rapid.SampledFrom(phrases).Draw(t, "phrase") + "canary" + rapid.String().Draw(t, "text"))
		entry := zapcore.Entry{LoggerName: logger, Message: "static"}
		if strings.HasPrefix(logger, "http.log.error") || logger == "http.stdlib" {
			entry.Message = err.Error()
		}
		line, _ := lineOf(t, entry, []zapcore.Field{zap.Error(err), zap.String("err", err.Error())},
			zap.Error(err), zap.NamedError("write_error", err), zap.Any("error", err), zap.String("error", err.Error()),
			zap.Any("error", struct{ Text string }{err.Error()}), zap.String("msg", err.Error()), zap.Errors("errors", []error{err}),
			zap.Error(errors.Join(err, err)), zap.NamedError("cause", err), zap.Error(verbose{err}))
		if strings.Contains(line, "canary") {
			t.Fatal(line)
		}
	})
}

// verbose is an error with a long form.
type verbose struct{ error }

func (v verbose) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "long canary "+v.Error()) }

// Errors of loggers that do not deal with clients or upstreams are written, without
// card numbers and queries.
func TestTrustedLoggersKeepTheirErrors(t *testing.T) {
	for _, logger := range []string{"", "admin.api", "card_gateway", "card_gateway.store", "tls.obtain"} {
		line, _ := lineOf(t, zapcore.Entry{LoggerName: logger, Message: "x"}, nil,
			zap.Error(errors.New("adapting config: no such directive /x?token=secret 4111 1111 1111 1111")))
		if !strings.Contains(line, "adapting config: no such directive /x?*** ***") {
			t.Errorf("%s: %s", logger, line)
		}
	}
}

// The stack of a panic is written, because it names only code; its text is not.
func TestPanicKeepsItsStack(t *testing.T) {
	const report = "http: panic serving 192.0.2.1:1: canary\ngoroutine 9 [running]:\ncanary\n\ngoroutine 7 [running]:\nmain.f()\n\t/x/main.go:12 +0x1d"
	line, _ := lineOf(t, zapcore.Entry{LoggerName: "http.stdlib", Message: report}, nil)
	if strings.Contains(line, "canary") || !strings.Contains(line, "a handler panicked") || !strings.Contains(line, "main.go:12") {
		t.Error(line)
	}
}

// The encoder reduces lines of the standard log that Caddy writes before the
// gateway takes that log.
func TestUnnamedLogger(t *testing.T) {
	line, _ := lineOf(t, zapcore.Entry{Message: `Unsolicited response received on idle HTTP channel starting with "canary"; err=<nil>`}, nil)
	if strings.Contains(line, "canary") || !strings.Contains(line, "without being asked") {
		t.Error(line)
	}
	if line, _ = lineOf(t, zapcore.Entry{Message: "serving initial configuration"}, nil); !strings.Contains(line, "serving initial configuration") {
		t.Error(line)
	}
}

func TestStandardLog(t *testing.T) {
	core, seen := observer.New(zapcore.InfoLevel)
	std := log.New(StandardLog{func() *zap.Logger { return zap.New(core) }}, "", 0)
	std.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "canary", nil)
	std.Print("canary")
	var said bytes.Buffer
	for _, entry := range seen.All() {
		said.WriteString(entry.Message + "\n")
	}
	const want = "the standard library reports: the upstream sent bytes on an idle connection without being asked\n" +
		"the standard library reports: a failure whose text is not logged\n"
	if said.String() != want {
		t.Errorf("%s", said.String())
	}
}
