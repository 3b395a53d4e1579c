package explain

import (
	"crypto/sha256"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// MaxBody is the largest body in bytes of which other forms are tried.
const MaxBody = 64 << 10

// MaxVariants is how many strings to sign are tried for one refusal.
const MaxVariants = 64

// A Case is a refused request, with what is known of it.
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

// Explain returns what is wrong with a request by rules 7 to 10, the first rule
// first. The key's secrets are tried with at most [MaxVariants] strings to
// sign. The number of attempts depends on the request and on the number of
// secrets, not on what they find.
func Explain(c *Case) []Finding {
	e := &explainer{Case: c}
	if c.holdsSecret() {
		e.add(SecretSent, "")
	}
	if c.Failed.Has(auth.RuleTimestamp) {
		e.timestamp()
	}
	if c.Failed.Has(auth.RuleNonce) {
		e.add(NonceUsed, "")
	}
	if c.Failed.Has(auth.RuleBodyHash) && c.Body != nil {
		e.body()
	}
	if c.Failed.Has(auth.RuleSignature) && c.Key != nil {
		e.signature()
	}
	return e.found
}

// explainer collects the findings of a case.
type explainer struct {
	*Case
	found []Finding
}

func (e *explainer) add(kind Kind, subject string) {
	e.found = append(e.found, Finding{Kind: kind, Subject: subject})
}

// StringToSign returns the string to sign of the request as it arrived.
func (c *Case) StringToSign() string {
	h := &c.Credentials
	return string(auth.AppendStringToSign(nil, c.Method, c.Target, h.Timestamp, h.Nonce, h.BodyHash))
}
