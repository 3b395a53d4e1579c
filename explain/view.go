package explain

import (
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// View returns the request as it arrived, for whoever compares it with what was
// signed. It holds no secret of the key and no body: a request that has one in
// the string to sign is shown without that.
func (c *Case) View() *auth.SignedView {
	view := new(auth.SignedView)
	if !c.holdsSecret() {
		shown := *c
		if h := &shown.Credentials; readForm(h.BodyHash).raw == nil {
			h.BodyHash = "[" + strconv.Itoa(len(h.BodyHash)) + " characters that are no hash]"
		}
		if h := &shown.Credentials; len(h.Timestamp) > maxShownTimestamp {
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
	for _, list := range [][]*auth.Secret{c.Key.Secrets, c.Key.Retired} {
		for _, s := range list {
			s.Read(func(text []byte) []byte {
				found = found || len(text) >= leastSecret && strings.Contains(sent, string(text))
				return nil
			})
		}
	}
	return found
}
