package request

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// spellingOf returns the function that wrote the digest as this signature, or
// nil if none did.
func spellingOf(signature string, digest []byte) func([]byte) string {
	std, raw := base64.StdEncoding.EncodeToString, base64.RawStdEncoding.EncodeToString
	for _, spell := range []func([]byte) string{
		std, raw,
		base64.URLEncoding.EncodeToString,
		base64.RawURLEncoding.EncodeToString,
		hex.EncodeToString,
		func(d []byte) string { return strings.ToUpper(hex.EncodeToString(d)) },
		func(d []byte) string { return std([]byte(hex.EncodeToString(d))) },
		func(d []byte) string { return std(d) + "=" },
		func(d []byte) string { return strings.NewReplacer("/", "%2F", "=", "%3D").Replace(std(d)) },
		func(d []byte) string { return swapCase(std(d)) },
		func(d []byte) string { return `"` + std(d) + `"` },
		func(d []byte) string { return "HMAC-SHA256 " + std(d) },
		func(d []byte) string { return raw(d)[:42] + "=" },
		func(d []byte) string { return std(d)[1:] },
		func(d []byte) string { return "A" + std(d) },
		func(d []byte) string { return std(d) + " junk" },
		twin,
	} {
		if spell(digest) == signature {
			return spell
		}
	}
	return nil
}

// twin returns another text that a lenient decoder reads as the same bytes.
func twin(digest []byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	text := []byte(base64.StdEncoding.EncodeToString(digest))
	text[42] = alphabet[strings.IndexByte(alphabet, text[42])+1]
	return string(text)
}

func swapCase(s string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
			return c ^ 0x20
		default:
			return c
		}
	}, s)
}

// TestSpellings sends the right digests in spellings that a lenient decoder
// would take for them.
func TestSpellings(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	for _, spell := range []func([]byte) string{
		base64.URLEncoding.EncodeToString, base64.RawStdEncoding.EncodeToString, twin,
		func(d []byte) string { return fmt.Sprintf("%x", d) },
	} {
		for range 4 { // some digests are written alike in both alphabets
			r := key.Get()
			digest := r.Digest(key.Secret)
			if text := spell(digest); text != base64.StdEncoding.EncodeToString(digest) {
				harness.WantUnauthorized(t, g.Send(t, r.Set("X-Signature", text)), harness.WrongSignature)
			}
			r = key.Request(http.MethodPost, "/api/v1/cards", rand.Text())
			sum := sha256.Sum256([]byte(r.Body))
			if text := spell(sum[:]); text != harness.BodyHash(r.Body) {
				harness.WantUnauthorized(t, g.Send(t, r.Set("X-Body-Hash", text).Sign(key.Secret)), harness.BodyMismatch)
			}
		}
	}
	u.None(t)
}
