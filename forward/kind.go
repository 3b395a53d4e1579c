package forward

import "net/http"

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
