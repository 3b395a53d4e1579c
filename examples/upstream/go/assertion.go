// Package upstream shows how a service behind Card Gateway verifies the header
// X-Gateway-Assertion, with go-jose. Copy it; docs/upstream.md explains it.
package upstream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// tolerance is how far the clocks of gateway and service may differ.
const tolerance = 5 * time.Second

// A RefusedError names the claim, or the part of the assertion, that is wrong:
// form, kid, alg, signature, or a name in [Claims].
type RefusedError struct{ Claim, Why string }

func (e *RefusedError) Error() string { return "assertion refused: " + e.Claim + ": " + e.Why }

// Claims are what the gateway says about a request.
type Claims struct {
	Issuer    string `json:"iss"`
	Audience  string `json:"aud"`
	IssuedAt  int64  `json:"iat"`
	Expires   int64  `json:"exp"`
	ID        string `json:"jti"`
	RequestID string `json:"rid"`
	KeyID     string `json:"sub"`
	Tenant    string `json:"tenant"`
	Scope     string `json:"scope"`
	Operation string `json:"op"`
	Method    string `json:"htm"`
	Target    string `json:"htu"`
	Digest    string `json:"digest"`
}

// A Request is what the service has received.
type Request struct {
	Assertions []string // all values of the header X-Gateway-Assertion
	Method     string
	Target     string // as in the request line: RequestURI of net/http
	Body       []byte
}

// A Verifier accepts each assertion once.
type Verifier struct {
	Issuer   string             // card-gateway, unless configured otherwise
	Audience string             // the name of this service
	Keys     jose.JSONWebKeySet // from card_jwks; a secret key of HS256 is a JWK of the type oct

	mu    sync.Mutex
	used  map[string]int64 // exp by jti, of assertions that could be used again
	swept int64            // when those that have expired were forgotten
}

// Verify returns the claims of the assertion of a request that arrived at now. The
// error is a *RefusedError.
func (v *Verifier) Verify(r *Request, now time.Time) (*Claims, error) {
	payload, err := v.signed(r.Assertions)
	if err != nil {
		return nil, err
	}
	c := new(Claims)
	if err := json.Unmarshal(payload, c); err != nil {
		return nil, refusedType(err)
	}
	sum := sha256.Sum256(r.Body)
	for _, claim := range []struct{ name, got, want string }{
		{"iss", c.Issuer, v.Issuer}, {"aud", c.Audience, v.Audience},
		{"htm", c.Method, r.Method}, {"htu", c.Target, r.Target},
		{"digest", c.Digest, base64.StdEncoding.EncodeToString(sum[:])},
	} {
		if claim.got != claim.want {
			return nil, &RefusedError{claim.name, fmt.Sprintf("is %q, and %q was expected", claim.got, claim.want)}
		}
	}
	switch {
	case time.Unix(c.Expires, 0).Add(tolerance).Before(now):
		return nil, &RefusedError{"exp", "the assertion has expired; are the clocks right?"}
	case time.Unix(c.IssuedAt, 0).After(now.Add(tolerance)):
		return nil, &RefusedError{"iat", "the assertion is of the future; are the clocks right?"}
	case c.ID == "":
		return nil, &RefusedError{"jti", "is missing"}
	}
	return c, v.useOnce(c, now)
}

// signed returns the payload of the one assertion, if a known key has signed it
// with the algorithm of that key.
func (v *Verifier) signed(assertions []string) ([]byte, error) {
	if len(assertions) != 1 {
		return nil, &RefusedError{"form", fmt.Sprintf("%d assertions", len(assertions))}
	}
	jws, err := jose.ParseSignedCompact(assertions[0], []jose.SignatureAlgorithm{jose.EdDSA, jose.HS256})
	if unexpected := (*jose.ErrUnexpectedSignatureAlgorithm)(nil); errors.As(err, &unexpected) {
		return nil, &RefusedError{"alg", err.Error()}
	} else if err != nil {
		return nil, &RefusedError{"form", err.Error()}
	}
	header := jws.Signatures[0].Protected
	keys := v.Keys.Key(header.KeyID)
	if header.KeyID == "" || len(keys) != 1 {
		return nil, &RefusedError{"kid", "no key is named so; is the key set new?"}
	}
	if header.Algorithm != keys[0].Algorithm {
		return nil, &RefusedError{"alg", "the key is for " + keys[0].Algorithm}
	}
	payload, err := jws.Verify(keys[0].Key)
	if err != nil {
		return nil, &RefusedError{"signature", err.Error()}
	}
	return payload, nil
}

// useOnce refuses an assertion that was used before. A service of several processes
// keeps what was used in a store that they share.
func (v *Verifier) useOnce(c *Claims, now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.used == nil {
		v.used = make(map[string]int64)
	}
	if at := now.Unix(); at > v.swept {
		v.swept = at
		maps.DeleteFunc(v.used, func(_ string, expires int64) bool { return time.Unix(expires, 0).Add(tolerance).Before(now) })
	}
	if _, is := v.used[c.ID]; is {
		return &RefusedError{"jti", "was used before"}
	}
	v.used[c.ID] = c.Expires
	return nil
}

// refusedType names the claim that has another type.
func refusedType(err error) error {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return &RefusedError{wrong.Field, "is a " + wrong.Value}
	}
	return &RefusedError{"form", err.Error()}
}
