package harness

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
)

// This file verifies signed answers by their description alone, and shares no code
// with the gateway.

// SignedFor returns why the answer is not signed for the request with the secret, or
// nil.
func (r *Response) SignedFor(sent *Request, secret string) error {
	var values []string
	for _, name := range []string{"X-Request-Id", "X-Response-Timestamp", "X-Response-Body-Hash", "X-Response-Signature"} {
		all := r.Header.Values(name)
		if len(all) != 1 {
			return fmt.Errorf("%d headers %s", len(all), name)
		}
		values = append(values, all[0])
	}
	if want := BodyHash(r.Body); values[2] != want {
		return fmt.Errorf("the hash is %s, want %s", values[2], want)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	io.WriteString(mac, strings.Join([]string{"card-gateway-response-v1", fmt.Sprint(r.Status), values[0], values[1], sent.Value("X-Nonce"), values[2]}, "\n"))
	if want := base64.StdEncoding.EncodeToString(mac.Sum(nil)); values[3] != want {
		return fmt.Errorf("the signature is %s, want %s", values[3], want)
	}
	return nil
}

// Unsigned returns why the answer is not one without a signature, or nil.
func (r *Response) Unsigned() error {
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Response-") {
			return fmt.Errorf("it has %s", name)
		}
	}
	return nil
}
