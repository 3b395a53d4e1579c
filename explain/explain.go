// Package explain finds the mistake in a request that the gateway has refused:
// [Explain] returns findings from a closed set, each with a sentence and a
// remedy.
//
// It tries what signing clients get wrong: the form of a header, another string
// to sign, another reading of the secret, another form of the body. It runs for
// refusals only, and a finding never makes a request pass.
//
// The package does no I/O and reads no clock. It knows the secrets of a key;
// its findings hold none of them, no signature and no part of a body.
//
// Begin with [Explain].
package explain

import (
	"crypto/sha256"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	// Fragment is what follows # in the URL that the client has, and was not sent.
	Fragment string
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

// Explain returns what is wrong with a request by rules 7 to 10, the first rule
// first. The key's secrets are tried with at most [MaxVariants] strings to
// sign. The number of attempts depends on the request and on the number of
// secrets, not on what they find.
func Explain(c *Case) []Finding {
	e := &explainer{Case: c}
	leaks := c.holdsSecret()
	if leaks {
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
	if c.Failed.Has(auth.RuleSignature) && c.Key != nil && !leaks {
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

// addForm adds what is wrong with the form of a header.
func (e *explainer) addForm(f *form, header string) {
	for _, kind := range f.kinds {
		e.add(kind, header)
	}
}

// timestamp explains rule 7.
func (e *explainer) timestamp() {
	text, unix := e.Credentials.Timestamp, e.Credentials.Unix
	switch off := e.Now.Unix() - unix; {
	case unix == 0 && isMilliseconds(text):
		e.add(TimestampMilliseconds, "")
	case unix == 0 && dateOrTime.MatchString(text):
		e.add(TimestampISO, "")
	case unix == 0:
		e.add(TimestampForm, "")
	case auth.InWindow(e.Now, unix, e.Window):
		e.add(TimestampMoved, "")
	case off < 0:
		e.add(TimestampAhead, strconv.FormatInt(-off, 10))
	default:
		e.add(TimestampBehind, strconv.FormatInt(off, 10))
	}
}

// dateOrTime is within a date or a time of day, of ISO 8601 or HTTP.
var dateOrTime = regexp.MustCompile("[0-9][-:T][0-9]")

// isMilliseconds reports whether the text is Unix time in milliseconds: 13
// digits.
func isMilliseconds(text string) bool {
	_, ok := auth.ParseTimestamp(text[:min(10, len(text))])
	return ok && len(text) == 13 && strings.Trim(text, "0123456789") == ""
}

// View returns the request as it arrived, for whoever compares it with what was
// signed. It holds no secret of the key and no body: a request that has one in
// the string to sign is shown without that.
func (c *Case) View() *auth.SignedView {
	view := new(auth.SignedView)
	if !c.holdsSecret() {
		shown := *c
		h := &shown.Credentials
		if readForm(h.BodyHash).raw == nil {
			h.BodyHash = "[" + strconv.Itoa(len(h.BodyHash)) + " characters that are no hash]"
		}
		if len(h.Timestamp) > maxShownTimestamp {
			h.Timestamp = "[" + strconv.Itoa(len(h.Timestamp)) + " characters]"
		}
		view.StringToSign = shown.StringToSign()
	}
	if c.Body != nil {
		view.ReceivedBytes, view.ReceivedHash = &c.Body.Size, auth.EncodeHash(c.Body.Sum)
	}
	return view
}

// maxShownTimestamp is more than any form of a time takes.
const maxShownTimestamp = 64

// leastSecret is the shortest text, in bytes, that is looked for in a request.
// Secrets that the gateway makes or imports are longer; a shorter one is in
// many texts by chance.
const leastSecret = 16

// holdsSecret reports whether a secret of the key is in the request line or in
// one of the five headers.
func (c *Case) holdsSecret() bool {
	if c.Key == nil {
		return false
	}
	h := &c.Credentials
	sent := strings.Join([]string{c.Target, h.KeyID, h.Timestamp, h.Nonce, h.BodyHash, h.Signature}, "\n")
	found := false
	for _, s := range slices.Concat(c.Key.Secrets, c.Key.Retired) {
		s.Read(func(text []byte) []byte {
			found = found || len(text) >= leastSecret && strings.Contains(sent, string(text))
			return nil
		})
	}
	return found
}
