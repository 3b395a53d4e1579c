package cardlog

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// A PlainError is an error of the gateway. Its text quotes no client and no
// upstream, so it may be logged in full where other errors may not.
type PlainError string

// Error returns the text.
func (e PlainError) Error() string { return string(e) }

// unnamed is logged for a failure without a kind.
const unnamed = "a failure whose text is not logged"

// Failure returns the text for the log of an error that a client or an upstream
// may have caused: the text of the [PlainError] in it, or else the kind of
// failure, after the address that was dialled, if any. For an error without a
// kind it returns a fixed text and the type of the error. The texts of libraries
// are not logged: they quote what the other side has sent, which may be card
// data.
func Failure(err error) string {
	var plain PlainError
	if errors.As(err, &plain) {
		return string(plain)
	}
	kind, known := kindOf(err.Error())
	if !known {
		return fmt.Sprintf("%s (%T)", unnamed, innermost(err))
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" && op.Addr != nil {
		return "dial " + op.Net + " " + op.Addr.String() + ": " + kind
	}
	return kind
}

// failureText is [Failure] for the text of an error.
func failureText(text string) string {
	kind, _ := kindOf(text)
	return kind
}

// innermost returns the error that the others wrap.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// kindOf returns the kind of failure for the error text of a library, and whether
// there is one.
func kindOf(text string) (kind string, known bool) {
	for _, row := range kinds {
		for phrase := range strings.SplitSeq(row.phrases, "|") {
			if strings.Contains(text, phrase) {
				return row.kind, true
			}
		}
	}
	return unnamed, false
}

// kinds are the kinds of failure, by phrases in the texts of net/http, net, crypto
// and Caddy, with "|" between them. A more special phrase is before a more general
// one. Bytes of a peer can only lead to another kind; they are never logged.
var kinds = []struct{ phrases, kind string }{
	{"Unsolicited response", "the upstream sent bytes on an idle connection without being asked"},
	{"panic serving", "a handler panicked"},
	{"cleanup: ", "a module of Caddy failed to clean up"},
	{"no upstreams available|all upstream health checks failed", "no upstream is available"},

	{"malformed MIME header", "malformed header lines"},
	{`response "\x15\x03`, "the upstream speaks TLS, HTTP was expected"},
	{"malformed HTTP response", "malformed HTTP response"},
	{"malformed HTTP status code", "malformed HTTP status code"},
	{"malformed HTTP version", "malformed HTTP version"},
	{"malformed HTTP request", "malformed HTTP request"},
	{"trailer", "invalid trailer"},
	{"chunk", "malformed chunked encoding"},
	{"Content-Length", "invalid Content-Length"},
	{"ContentLength=", "the length of the body is not the one that was announced"},
	{"transfer encoding", "unsupported transfer encoding"},
	{"too many 1xx", "too many 1xx answers"},
	{"response headers exceeded|header list too large", "the header is too large"},
	{"invalid header|pseudo header", "invalid header field"},
	{"invalid host", "invalid host"},
	{"forbids empty Host", "no host"},
	{"strict host matching", "the server name of TLS is not the host of the request"},
	{"request body too large", "the request body is too large"},
	{"gzip: ", "malformed gzip"},

	{"certificate has expired or is not yet valid", "the certificate has expired or is not yet valid"},
	{"signed by unknown authority", "the certificate is signed by an unknown authority"},
	{"x509: cannot validate|x509: certificate is", "the certificate is for another name"},
	{"x509: ", "the certificate cannot be verified"},
	{"tls: bad certificate|tls: unknown certificate", "TLS handshake: the peer refused the certificate"},
	{"certificate required", "TLS handshake: a client certificate is required"},
	{"does not look like a TLS handshake|server gave HTTP response to HTTPS client|client sent an HTTP request to an HTTPS server", "TLS handshake: the peer does not speak TLS"},
	{"protocol version not supported", "TLS handshake: no common version"},
	{"no cipher suite supported", "TLS handshake: no common cipher suite"},
	{"TLS handshake timeout", "TLS handshake: timeout"},

	{"timeout awaiting response headers", "timeout awaiting response headers"},
	{"connection refused", "connection refused"},
	{"connection reset", "connection reset"},
	{"broken pipe", "broken pipe"},
	{"no such host", "no such host"},
	{"no such file or directory", "no such file or directory"},
	{"permission denied", "permission denied"},
	{"no route to host", "no route to host"},
	{"network is unreachable", "network is unreachable"},
	{"too many open files", "too many open files"},
	{"server misbehaving", "the name server failed"},
	{"server closed idle connection", "the upstream closed an idle connection"},
	{"use of closed network connection", "the connection was closed on this side"},
	{"connection has been hijacked", "the connection was taken over"},
	{"client disconnected", "the client hung up"},
	{"context canceled|request canceled", "the request was canceled"},
	{"deadline exceeded|imeout", "timeout"},
	{"GOAWAY", "HTTP/2: the peer closed the connection"},
	{"stream error", "HTTP/2: stream error"},
	{"http2: ", "HTTP/2: protocol error"},
	{"H3_", "HTTP/3: protocol error"},
	{"TLS handshake error", "TLS handshake: failed"},
	{"tls: ", "TLS: failed"},
	{"unexpected EOF", "unexpected EOF"},
	{"EOF", "EOF"},
	{"transport connection broken", "the connection broke"},
	{"superfluous response.WriteHeader", "a handler answered twice"},
}
