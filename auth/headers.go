package auth

import (
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The five headers that every signed request carries, in the canonical form
// by which net/http indexes them. HTTP compares their names without regard to
// case, so they are the published X-API-Key and so on.
const (
	HeaderKeyID     = "X-Api-Key"
	HeaderTimestamp = "X-Timestamp"
	HeaderNonce     = "X-Nonce"
	HeaderBodyHash  = "X-Body-Hash"
	HeaderSignature = "X-Signature"
)

// The headers of a signed answer, which the published interface does not have.
const (
	HeaderAnsweredAt      = "X-Response-Timestamp"
	HeaderAnswerHash      = "X-Response-Body-Hash"
	HeaderAnswerSignature = "X-Response-Signature"
)

// Credentials are the values of the five headers, as they were sent.
type Credentials struct {
	KeyID     string
	Timestamp string
	Nonce     string
	BodyHash  string
	Signature string
	// Unix is X-Timestamp in seconds, or 0 when it is malformed: that is not
	// a missing header but a timestamp outside of every window (rule 7).
	Unix int64
}

// ParseCredentials returns the values of the five headers. It refuses by rule 1
// unless each of them is present exactly once and is not empty, and X-Nonce
// consists of 1 to 256 visible ASCII characters. The refusal's details and log
// text name every wrong header and its fault, never its value.
func ParseCredentials(h http.Header) (Credentials, *Refusal) {
	id, timestamp, nonce := h[HeaderKeyID], h[HeaderTimestamp], h[HeaderNonce]
	bodyHash, signature := h[HeaderBodyHash], h[HeaderSignature]
	if !once(id) || !once(timestamp) || !once(nonce) || !once(bodyHash) || !once(signature) || !ValidNonce(nonce[0]) {
		return Credentials{}, headersRefusal(h)
	}
	c := Credentials{
		KeyID:     id[0],
		Timestamp: timestamp[0],
		Nonce:     nonce[0],
		BodyHash:  bodyHash[0],
		Signature: signature[0],
	}
	c.Unix, _ = ParseTimestamp(c.Timestamp)
	return c, nil
}

func once(values []string) bool { return len(values) == 1 && values[0] != "" }

// headersRefusal returns the refusal by rule 1, which names the wrong ones of
// the five headers, each with its fault.
func headersRefusal(h http.Header) *Refusal {
	refusal := &Refusal{Reason: MissingHeaders}
	var faults []string
	for _, name := range [...]string{HeaderKeyID, HeaderTimestamp, HeaderNonce, HeaderBodyHash, HeaderSignature} {
		if fault := headerFault(name, h[name]); fault != "" {
			refusal.Details = append(refusal.Details, FieldError{Field: name, Message: fault})
			faults = append(faults, name+" "+fault)
		}
	}
	refusal.Log = strings.Join(faults, ", ")
	return refusal
}

// headerFault returns what is wrong with the values of one of the five headers,
// or "".
func headerFault(name string, values []string) string {
	switch {
	case len(values) == 0:
		return "is missing"
	case len(values) > 1:
		return "is present more than once"
	case values[0] == "":
		return "is empty"
	case name == HeaderNonce && len(values[0]) > maxNonce:
		return "is longer than 256 characters"
	case name == HeaderNonce && !ValidNonce(values[0]):
		return "holds a character that is not visible ASCII: " + describeByte(values[0])
	}
	return ""
}

// describeByte names the first byte of a nonce that is not visible ASCII, and
// where it is.
func describeByte(nonce string) string {
	for i := 0; i < len(nonce); i++ {
		at := " at position " + strconv.Itoa(i+1)
		switch c := nonce[i]; {
		case c == ' ':
			return "a blank" + at
		case c < 0x21 || c == 0x7f:
			return "a control byte" + at
		case c >= 0x80:
			return "a byte beyond ASCII" + at
		}
	}
	return "none"
}

// ParseTimestamp returns a timestamp in Unix seconds. The text must be ten
// decimal digits without a leading zero, so every moment from 2001 to 2286 has
// one spelling. For any other text it returns false.
func ParseTimestamp(s string) (int64, bool) {
	if len(s) != 10 || s[0] == '0' {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// InWindow reports whether the timestamp, in Unix seconds, differs from now by
// at most the window. Whole seconds are compared: a difference of exactly the
// window is inside. The timestamp 0, of a malformed header, is always outside.
func InWindow(now time.Time, timestamp int64, window time.Duration) bool {
	if timestamp <= 0 {
		return false
	}
	d := now.Unix() - timestamp
	if d < 0 {
		d = -d
	}
	return d <= int64(window/time.Second)
}

// NonceDigest returns the first 16 bytes of the nonce's SHA-256. A store keeps
// this digest instead of the nonce: its size is fixed, and it cannot be sent
// again as a nonce.
func NonceDigest(nonce string) [16]byte {
	sum := sha256.Sum256([]byte(nonce))
	return [16]byte(sum[:16])
}

// NonceLifetime returns how long the nonce of a request that is accepted at now
// must be remembered: until its timestamp (Unix seconds) can no longer pass the
// window, but at least the length of the window, plus ten seconds of margin.
func NonceLifetime(now time.Time, timestamp int64, window time.Duration) time.Duration {
	valid := time.Unix(timestamp, 0).Add(window + time.Second).Sub(now)
	return max(window, valid) + 10*time.Second
}

// ValidNonce reports whether s is allowed as X-Nonce: 1 to 256 visible ASCII
// characters.
func ValidNonce(s string) bool {
	if s == "" || len(s) > maxNonce {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < 0x21 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// maxNonce is the largest length of X-Nonce in bytes.
const maxNonce = 256

// The characters that names may contain.
const (
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	letters      = lowerLetters + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits       = "0123456789"
)

// isName reports whether s is one of the characters in first, followed by any
// number of those in rest.
func isName(s, first, rest string) bool {
	return s != "" && strings.IndexByte(first, s[0]) >= 0 && strings.Trim(s[1:], rest) == ""
}
