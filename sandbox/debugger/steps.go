package debugger

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/sign"
)

// A step is a line of the way to a signature.
type step struct{ Name, How, Value string }

// A signed request is one with its five headers, and how they came about.
type signed struct {
	Steps []step
	Raw   string // as it goes over the wire
}

// sign signs the request of the view with the key, for the host that the page was asked
// from.
func (h *Handler) sign(form *http.Request, v *view) (*signed, error) {
	secret, err := os.ReadFile(h.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("reading the secret of the key: %w", err)
	}
	r, err := http.NewRequestWithContext(form.Context(), v.Method, "http://"+form.Host+v.Target, http.NoBody) //nolint:gosec // it is signed, never sent
	if err != nil {
		return nil, err
	}
	signer := sign.Signer{KeyID: v.KeyID, Secret: strings.TrimSpace(string(secret))}
	if err := signer.Sign(r, []byte(v.Body)); err != nil {
		return nil, err
	}
	return &signed{Steps: stepsOf(r, v.Body), Raw: rawOf(r, v.Body)}, nil
}

// stepsOf returns the way to the signature that a request has.
func stepsOf(r *http.Request, body string) []step {
	get := r.Header.Get
	path, query, hasQuery := strings.Cut(r.URL.RequestURI(), "?")
	shownQuery := query
	if !hasQuery {
		shownQuery = "none, and no ?"
	}
	unix, _ := strconv.ParseInt(get(auth.HeaderTimestamp), 10, 64)
	hash, signature := get(auth.HeaderBodyHash), get(auth.HeaderSignature)
	text := auth.AppendStringToSign(nil, r.Method, r.URL.RequestURI(), get(auth.HeaderTimestamp), get(auth.HeaderNonce), hash)
	return []step{
		{"Method", "in upper case", r.Method},
		{"Path", "as on the request line: nothing is decoded or cleaned", path},
		{"Query", "as on the request line: nothing is decoded or sorted", shownQuery},
		{"Timestamp", time.Unix(unix, 0).UTC().Format(time.RFC3339) + " in Unix seconds", get(auth.HeaderTimestamp)},
		{"Nonce", "a text that no other request of this key has", get(auth.HeaderNonce)},
		{"Body hash, in hex", fmt.Sprintf("SHA-256 of the %d bytes of the body", len(body)), inHex(hash)},
		{"Body hash", "the same 32 bytes in base64", hash},
		{"String to sign", fmt.Sprintf("method, path with query, timestamp, nonce and body hash, with one line feed between them and none at the end: %d bytes", len(text)), string(text)},
		{"Signature, in hex", "HMAC-SHA256 of the string to sign, keyed with the text of the secret", inHex(signature)},
		{"Signature", "the same 32 bytes in base64", signature},
	}
}

func inHex(inBase64 string) string {
	raw, _ := base64.StdEncoding.DecodeString(inBase64) // the signer has written it
	return hex.EncodeToString(raw)
}

// rawOf returns a signed request as it goes over the wire.
func rawOf(r *http.Request, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\nHost: %s\n", r.Method, r.URL.RequestURI(), r.Host)
	for _, name := range []string{auth.HeaderKeyID, auth.HeaderTimestamp, auth.HeaderNonce, auth.HeaderBodyHash, auth.HeaderSignature} {
		fmt.Fprintf(&b, "%s: %s\n", name, r.Header.Get(name))
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\nContent-Length: %d\n", len(body))
	}
	return b.String() + "\n" + body
}
