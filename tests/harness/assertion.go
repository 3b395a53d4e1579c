package harness

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// This file verifies assertions by their description alone, as an issuer would.
// It shares no code with the gateway.

// assertKeyFile is the file of a gateway's directory with the keys of its assertions.
const assertKeyFile = "assert.key"

// Audience is the audience of the assertions of a [Site].
const Audience = "issuer.test"

// AssertBlock returns the block assert of card_auth, or "".
func (g *Gateway) AssertBlock() string {
	if g.Site.Assert == "" {
		return ""
	}
	return "assert {\nalgorithm " + g.Site.Assert + "\nkey file " + g.Path(assertKeyFile) + "\naudience " + Audience + "\n}\n"
}

// Claims are the claims of an assertion.
type Claims struct {
	Iss, Aud, Jti, Rid, Sub, Tenant, Scope, Op, Htm, Htu, Digest string
	Iat, Exp                                                     int64
}

// Assertion returns the claims of the request's assertion. It fails if the
// assertion is not signed with one of the lines of base64 in keys, or is not
// about this request.
func (r *Received) Assertion(keys string, now time.Time) (*Claims, error) {
	values := r.Values("X-Gateway-Assertion")
	if len(values) != 1 {
		return nil, fmt.Errorf("%d assertions, want 1", len(values))
	}
	c, err := verifyJWS(values[0], strings.Fields(keys))
	if err != nil {
		return nil, err
	}
	return c, c.about(r, now)
}

// KeyOfAssertion returns the claim kid of the request's assertion, or "".
func (r *Received) KeyOfAssertion() string {
	head, _, _ := strings.Cut(r.Value("X-Gateway-Assertion"), ".")
	text, _ := base64.RawURLEncoding.DecodeString(head)
	var header struct{ Kid string }
	_ = json.Unmarshal(text, &header)
	return header.Kid
}

// verifyJWS returns the claims of a compact JWS.
func verifyJWS(text string, keys []string) (*Claims, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%d parts", len(parts))
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil {
			return nil, err
		}
	}
	var header struct{ Alg, Kid, Typ string }
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return nil, err
	}
	for _, line := range keys {
		raw, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, err
		}
		if verified(header.Alg, raw, parts[0]+"."+parts[1], decoded[2]) {
			if kid := thumbprint(header.Alg, raw); header.Kid != kid {
				return nil, fmt.Errorf("kid %q, want %q", header.Kid, kid)
			}
			c := new(Claims)
			return c, json.Unmarshal(decoded[1], c)
		}
	}
	return nil, errors.New("no key verifies the signature")
}

func verified(alg string, raw []byte, signed string, signature []byte) bool {
	switch alg {
	case "EdDSA":
		public, _ := ed25519.NewKeyFromSeed(raw).Public().(ed25519.PublicKey)
		return ed25519.Verify(public, []byte(signed), signature)
	case "HS256":
		mac := hmac.New(sha256.New, raw)
		mac.Write([]byte(signed))
		return hmac.Equal(mac.Sum(nil), signature)
	default:
		return false
	}
}

// thumbprint returns the name of a key by RFC 7638.
func thumbprint(alg string, raw []byte) string {
	members := `{"k":"` + base64.RawURLEncoding.EncodeToString(raw) + `","kty":"oct"}`
	if alg == "EdDSA" {
		public, _ := ed25519.NewKeyFromSeed(raw).Public().(ed25519.PublicKey)
		members = `{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(public) + `"}`
	}
	sum := sha256.Sum256([]byte(members))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// about returns why the claims are not about the request, or nil.
func (c *Claims) about(r *Received, now time.Time) error {
	method, rest, _ := strings.Cut(r.Line, " ")
	target := strings.TrimSuffix(rest, " HTTP/1.1")
	for _, claim := range []struct{ name, got, want string }{
		{"iss", c.Iss, "card-gateway"}, {"aud", c.Aud, Audience},
		{"rid", c.Rid, r.Value("X-Request-Id")}, {"sub", c.Sub, r.Value("X-Gateway-Key-Id")},
		{"tenant", c.Tenant, r.Value("X-Gateway-Tenant")}, {"scope", c.Scope, r.Value("X-Gateway-Scopes")},
		{"op", c.Op, r.Value("X-Gateway-Operation")},
		{"htm", c.Htm, method}, {"htu", c.Htu, latin1(target)}, {"digest", c.Digest, BodyHash(r.Body)},
	} {
		if claim.got != claim.want {
			return fmt.Errorf("%s is %q, want %q", claim.name, claim.got, claim.want)
		}
	}
	if at := now.Unix(); c.Exp != c.Iat+60 || c.Iat > at+1 || c.Exp <= at {
		return fmt.Errorf("iat %d and exp %d at %d", c.Iat, c.Exp, at)
	}
	return nil
}

// UseID returns the claim jti of a request.
func (r *Request) UseID() string {
	sum := sha256.Sum256([]byte(r.Value("X-API-Key") + "\n" + r.Value("X-Nonce")))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// latin1 returns the text that has the bytes as characters.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
