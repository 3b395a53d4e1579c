package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

// An Error is the reason why a request failed, or a problem for an [Observer].
type Error struct {
	Kind   Kind
	Issuer string // its address; empty if no issuer was chosen
	// Forwarded reports whether a byte of the request was written to an
	// issuer. False means that the request may safely be sent again.
	Forwarded bool
	// RetryAfter is when another attempt may succeed. It is set with
	// KindAllOut and KindBusy only.
	RetryAfter time.Duration
	// Text describes the failure. It holds no byte that an issuer sent.
	Text string

	ended bool // by the caller's context; no fault of an issuer
	pace  pace // of the failure
}

// Error returns the text, with the issuer if one was chosen.
func (e *Error) Error() string {
	if e.Issuer == "" {
		return e.Text
	}
	return "issuer " + e.Issuer + ": " + e.Text
}

// fault reports whether the issuer has failed, and not only been late.
func (e *Error) fault() bool {
	return e.Kind == KindDial || e.Kind == KindTLS || e.Kind == KindClosed || e.Kind == KindMalformed
}

// Texts that are used in more than one place.
const (
	textCanceled   = "the client has gone"
	textDeadline   = "the request's own deadline passed"
	textStalled    = "the issuer did not take the body in time"
	textNoHead     = "the issuer did not answer in time"
	textBeforeHead = "the issuer closed the connection before it answered"
	textInHead     = "the issuer closed the connection inside the head of its answer"
)

// ended returns the error of a context that is done, else nil.
func ended(ctx context.Context) *Error {
	switch err := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: KindTimeout, Text: textDeadline, ended: true}
	default:
		return &Error{Kind: KindCanceled, Text: textCanceled, ended: true}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// dialText returns why a connection could not be made. The system's own texts
// are a closed set.
func dialText(err error) string {
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "the issuer's name does not resolve"
	case isTimeout(err):
		return "no connection was made in time"
	case errors.As(err, &name):
		return "the issuer's name could not be looked up"
	case errors.As(err, &number):
		return "no connection could be made: " + number.Error()
	default:
		return "no connection could be made"
	}
}

// tlsText returns why a handshake failed, without any text from the issuer's
// certificate or other bytes of the issuer.
func tlsText(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case isTimeout(err):
		return "the TLS handshake did not end in time"
	case errors.As(err, &unknown):
		return "the issuer's certificate is not signed by a known authority"
	case errors.As(err, &host):
		return "the issuer's certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the issuer's certificate has expired or is not valid yet"
	case errors.As(err, &invalid):
		return "the issuer's certificate is not valid for this use"
	case errors.As(err, &record):
		return "the issuer does not speak TLS"
	case alertText(err) != "":
		return alertText(err)
	default:
		return "the TLS handshake failed"
	}
}

// alertText returns the alert that ended TLS, or "". The texts of crypto/tls
// for alerts are a closed set.
func alertText(err error) string {
	var alert *net.OpError
	switch {
	case !errors.As(err, &alert):
		return ""
	case alert.Op == "remote error":
		return "the issuer ended TLS: " + alert.Err.Error()
	case alert.Op == "local error":
		return "the issuer's TLS was refused: " + alert.Err.Error()
	default:
		return ""
	}
}

// Kind is what went wrong, from a closed set that serves as a metric label
// too.
type Kind uint8

// The kinds of a request that failed. The last group never fails a request; an
// [Observer] receives it.
const (
	// KindRequest: the request cannot be written as HTTP/1.1. Nothing was sent.
	KindRequest Kind = iota + 1
	// KindUpload: the caller's body could not be read, or has another length.
	KindUpload
	// KindCanceled: the caller's context was canceled, or the client takes no
	// more of the answer.
	KindCanceled
	// KindAllOut: every issuer is out, by its failures or by an active check.
	KindAllOut
	// KindBusy: no connection became free in time. Nothing was sent.
	KindBusy
	// KindDial: no connection could be made. Nothing was sent.
	KindDial
	// KindTLS: the TLS handshake failed. Nothing was sent.
	KindTLS
	// KindTimeout: the head of the answer did not arrive in time, or the
	// issuer did not take the body in time, or the context's deadline passed.
	KindTimeout
	// KindClosed: the issuer closed the connection before or inside the head
	// of the answer.
	KindClosed
	// KindMalformed: the head of the answer is not valid, or ambiguous.
	KindMalformed
	// KindBodyCut: the body of the answer ended early, stalled, or broke its
	// framing. Its head, and maybe a part of it, were delivered before.
	KindBodyCut

	// KindBehind: bytes followed a complete answer. The answer is good.
	KindBehind
	// KindUnasked: bytes arrived on an idle connection.
	KindUnasked
	// KindOut: an issuer was taken out after repeated failures.
	KindOut
	// KindCheck: an active check took an issuer out.
	KindCheck
	// KindCertificate: the client certificate could not be loaded again; the
	// earlier one stays in use.
	KindCertificate
)

var kindNames = [...]string{
	KindRequest: "request", KindUpload: "upload", KindCanceled: "canceled", KindAllOut: "all_out",
	KindBusy: "busy", KindDial: "dial", KindTLS: "tls", KindTimeout: "timeout", KindClosed: "closed",
	KindMalformed: "malformed", KindBodyCut: "body_cut", KindBehind: "behind", KindUnasked: "unasked",
	KindOut: "out", KindCheck: "check", KindCertificate: "certificate",
}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kindNames)-1)
	for k := KindRequest; int(k) < len(kindNames); k++ {
		all = append(all, k)
	}
	return all
}

// String returns the kind as a label: lower case with underscores.
func (k Kind) String() string {
	if k < KindRequest || int(k) >= len(kindNames) {
		return "unknown"
	}
	return kindNames[k]
}

// StatusClientGone is the status of a request whose client has gone. No client
// receives it; it is for logs.
const StatusClientGone = 499

// Status returns the status with which a gateway answers a request that failed
// with this kind: 502 or 504; 499 if the client has gone; 500 for a request that
// could not be written. It is 0 for a kind that never fails a request.
func (k Kind) Status() int {
	switch k {
	case KindRequest:
		return http.StatusInternalServerError
	case KindUpload, KindCanceled:
		return StatusClientGone
	case KindTimeout:
		return http.StatusGatewayTimeout
	case KindAllOut, KindBusy, KindDial, KindTLS, KindClosed, KindMalformed, KindBodyCut:
		return http.StatusBadGateway
	default:
		return 0
	}
}
