package sandbox

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxAsserted is the largest body that is read to verify an assertion, in bytes.
const maxAsserted = 32 << 20

// An AssertionCheck verifies the header X-Gateway-Assertion of each request, as
// docs/upstream.md describes it. It knows EdDSA only.
type AssertionCheck struct {
	// The address of the JWK set of the gateway: that of a handler card_jwks.
	JWKS string `json:"jwks"`

	// The audience that this issuer is.
	Audience string `json:"audience"`

	keys assertionKeys

	mu    sync.Mutex
	used  map[string]int64 // exp by jti, of assertions that could be used again
	swept int64            // when those that have expired were forgotten
}

// claims are the parts of an assertion that are compared.
type claims struct {
	Iss, Aud, Jti, Sub, Tenant, Scope, Op, Htm, Htu, Digest string
	Iat, Exp                                                int64
}

// verify returns why the request was not sent by the gateway just now, or nil. It
// reads the body and puts it back.
func (a *AssertionCheck) verify(r *http.Request, now time.Time) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAsserted))
	if err != nil {
		return fmt.Errorf("reading the body: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	values := r.Header.Values("X-Gateway-Assertion")
	if len(values) != 1 {
		return fmt.Errorf("%d assertions, want 1", len(values))
	}
	c, err := a.signed(r, values[0])
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	for _, claim := range []struct{ name, got, want string }{
		{"aud", c.Aud, a.Audience}, {"htm", c.Htm, r.Method}, {"htu", c.Htu, r.RequestURI},
		{"digest", c.Digest, base64.StdEncoding.EncodeToString(sum[:])},
		{"sub", c.Sub, r.Header.Get("X-Gateway-Key-Id")}, {"tenant", c.Tenant, r.Header.Get("X-Gateway-Tenant")},
		{"scope", c.Scope, r.Header.Get("X-Gateway-Scopes")}, {"op", c.Op, r.Header.Get("X-Gateway-Operation")},
	} {
		if claim.got != claim.want {
			return errors.New("the claim " + claim.name + " of the assertion is about something else")
		}
	}
	return a.useOnce(c, now.Unix())
}

// signed returns the claims of an assertion that a key of the gateway has signed.
func (a *AssertionCheck) signed(r *http.Request, assertion string) (*claims, error) {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return nil, errors.New("the assertion is no compact JWS")
	}
	var header struct{ Alg, Kid string }
	c := new(claims)
	if err := errors.Join(decodePart(parts[0], &header), decodePart(parts[1], c)); err != nil {
		return nil, err
	}
	key, err := a.keys.named(r.Context(), a.JWKS, header.Kid)
	if err != nil {
		return nil, err
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || header.Alg != "EdDSA" || !ed25519.Verify(key, []byte(parts[0]+"."+parts[1]), signature) {
		return nil, errors.New("the signature of the assertion is wrong")
	}
	return c, nil
}

func decodePart(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return fmt.Errorf("reading the assertion: %w", err)
	}
	return json.Unmarshal(text, into)
}

// useOnce refuses an assertion at the wrong time, and one that was used before.
func (a *AssertionCheck) useOnce(c *claims, now int64) error {
	const tolerance = 5
	if c.Exp+tolerance < now || c.Iat > now+tolerance {
		return errors.New("the assertion is of another time; are the clocks right?")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used == nil {
		a.used = make(map[string]int64)
	}
	if now > a.swept {
		a.swept = now
		for id, expires := range a.used {
			if expires+tolerance < now {
				delete(a.used, id)
			}
		}
	}
	if _, used := a.used[c.Jti]; used || c.Jti == "" {
		return errors.New("the assertion was used before")
	}
	a.used[c.Jti] = c.Exp
	return nil
}
