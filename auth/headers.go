package auth

import (
	"net/http"
	"strconv"
	"strings"
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
