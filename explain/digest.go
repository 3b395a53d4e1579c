package explain

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/card-gateway/card-gateway/auth"
)

// signs reports whether the secret makes the signature of the text, apart from
// its form.
func signs(s *auth.Secret, text string, sent *form) bool {
	sum := digest(s, text)
	return sent.fits(sum) || sent.fitsInCase(sum)
}

// digest returns the HMAC of the text.
func digest(s *auth.Secret, text string) [sha256.Size]byte {
	raw, err := base64.StdEncoding.DecodeString(s.Sign([]byte(text)))
	if err != nil || len(raw) != sha256.Size {
		panic("a signature of package auth is not 32 bytes in base64")
	}
	return [sha256.Size]byte(raw)
}
