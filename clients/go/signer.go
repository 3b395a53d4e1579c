package cardclient

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// The five headers of a signed request.
const (
	headerKeyID     = "X-Api-Key"
	headerTimestamp = "X-Timestamp"
	headerNonce     = "X-Nonce"
	headerBodyHash  = "X-Body-Hash"
	headerSignature = "X-Signature"
)

// A Signer holds the credentials of one key.
type Signer struct {
	KeyID  string // the X-API-Key value
	Secret string // the signing secret, exactly as it was shown
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Nonce returns a text that no other request of this key has; nil means 16
	// random bytes in hexadecimal.
	Nonce func() string
}

// String keeps the secret out of logs.
func (s Signer) String() string { return "signer of " + s.KeyID }

// GoString keeps the secret out of logs.
func (s Signer) GoString() string { return s.String() }

// Headers returns the five authentication headers of a request: its method in
// upper case, its path and query as they are written on the wire, and the bytes
// of its body. They are good for one attempt within five minutes. Headers
// returns an [UnsignableError] for what the gateway would refuse.
func (s Signer) Headers(method, target string, body []byte) (map[string]string, error) {
	if s.KeyID == "" || s.Secret == "" {
		return nil, &UnsignableError{"the key id or the secret is empty; set both"}
	}
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE":
	default:
		return nil, &UnsignableError{"the method " + strconv.Quote(method) + " is not one of GET, HEAD, POST, PUT, PATCH and DELETE"}
	}
	if fault := checkTarget(target); fault != "" {
		return nil, &UnsignableError{fault}
	}
	nonce, err := s.nonce()
	if err != nil {
		return nil, err
	}
	timestamp := strconv.FormatInt(s.now().Unix(), 10)
	sum := sha256.Sum256(body)
	bodyHash := base64.StdEncoding.EncodeToString(sum[:])
	mac := hmac.New(sha256.New, []byte(s.Secret))
	mac.Write([]byte(strings.Join([]string{method, target, timestamp, nonce, bodyHash}, "\n")))
	return map[string]string{
		headerKeyID: s.KeyID, headerTimestamp: timestamp, headerNonce: nonce, headerBodyHash: bodyHash,
		headerSignature: base64.StdEncoding.EncodeToString(mac.Sum(nil)),
	}, nil
}

func (s Signer) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s Signer) nonce() (string, error) {
	if s.Nonce != nil {
		return s.Nonce(), nil
	}
	nonce := make([]byte, 16)
	_, err := rand.Read(nonce)
	return hex.EncodeToString(nonce), err
}
