package explain

import (
	"crypto/sha256"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// MaxBody is the largest body in bytes of which other forms are tried.
const MaxBody = 64 << 10

// A Case is a refused request, with all that is known about it.
type Case struct {
	auth.Request
	Host string // of the Host header; empty: not known
	Key  *auth.Key
	// Failed holds the rules that the request fails, as far as they are known.
	// Only rules 7 to 10 are explained.
	Failed auth.Rules
	Body   *Body     // nil: it was not read
	Now    time.Time // of the gateway's clock
	Window time.Duration
}

// A Body is a request body that was read.
type Body struct {
	Size int64
	Sum  [sha256.Size]byte
	// Bytes is the body, or nil when it was not kept. Of a body of more than
	// [MaxBody] bytes no other forms are tried.
	Bytes []byte
}

// StringToSign returns the string to sign of the request as it arrived.
func (c *Case) StringToSign() string {
	h := &c.Credentials
	return string(auth.AppendStringToSign(nil, c.Method, c.Target, h.Timestamp, h.Nonce, h.BodyHash))
}
