package assertion_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/assertion"
)

var algorithms = []assertion.Algorithm{assertion.EdDSA, assertion.HS256}

// seed returns the line of a key, and its bytes.
func seed(n byte) (line string, raw []byte) {
	sum := sha256.Sum256([]byte{n})
	return base64.StdEncoding.EncodeToString(sum[:]), sum[:]
}

func newSigner(t testing.TB, algorithm assertion.Algorithm, lines ...string) *assertion.Signer {
	t.Helper()
	keys, err := assertion.ParseKeys(algorithm, strings.Join(lines, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := assertion.NewSigner(assertion.Options{Issuer: "card-gateway", Audience: "issuer", Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verified returns the claims of an assertion as a library that knows nothing of
// this package reads them.
func verified(t testing.TB, algorithm assertion.Algorithm, raw []byte, text string) map[string]any {
	t.Helper()
	var key any = raw
	if algorithm == assertion.EdDSA {
		key = ed25519.NewKeyFromSeed(raw).Public()
	}
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var claims map[string]any
	if err := token.Claims(key, &claims); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if want := thumbprint(t, algorithm, raw); token.Headers[0].KeyID != want {
		t.Fatalf("kid %q, want %q", token.Headers[0].KeyID, want)
	}
	return claims
}

// thumbprint returns that of RFC 7638. The library knows none of secret keys.
func thumbprint(t testing.TB, algorithm assertion.Algorithm, raw []byte) string {
	t.Helper()
	sum := sha256.Sum256([]byte(`{"k":"` + base64.RawURLEncoding.EncodeToString(raw) + `","kty":"oct"}`))
	print := sum[:]
	if algorithm == assertion.EdDSA {
		var err error
		if print, err = (&jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(raw).Public()}).Thumbprint(crypto.SHA256); err != nil {
			t.Fatal(err)
		}
	}
	return base64.RawURLEncoding.EncodeToString(print)
}

func TestClaims(t *testing.T) {
	for _, algorithm := range algorithms {
		line, raw := seed(1)
		other, _ := seed(2)
		text := newSigner(t, algorithm, line, other).Sign(&assertion.Claims{
			RequestID: "req-1", KeyID: "ck_live_1", Nonce: "n-1", Tenant: "acme", Scopes: "cards:read cards:write", Operation: "issue_card",
			Method: "POST", Target: `/api/v1/cards?q="a\b"`, Digest: sha256.Sum256([]byte("body")),
		}, time.Unix(1700000000, 999))
		got := verified(t, algorithm, raw, text)
		id := sha256.Sum256([]byte("ck_live_1\nn-1"))
		want := map[string]any{
			"iss": "card-gateway", "aud": "issuer", "iat": 1.7e9, "exp": 1.70000006e9, "jti": base64.RawURLEncoding.EncodeToString(id[:]),
			"rid": "req-1", "sub": "ck_live_1", "tenant": "acme", "scope": "cards:read cards:write", "op": "issue_card",
			"htm": "POST", "htu": `/api/v1/cards?q="a\b"`, "digest": "",
		}
		sum := sha256.Sum256([]byte("body"))
		want["digest"] = base64.StdEncoding.EncodeToString(sum[:])
		if !maps.Equal(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", algorithm, got, want)
		}
	}
}

// latin1 returns the text that has the bytes as characters.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// Any target and any names are valid JSON, and no byte of them is lost.
func TestAnyBytes(t *testing.T) {
	line, raw := seed(1)
	signers := map[assertion.Algorithm]*assertion.Signer{}
	for _, algorithm := range algorithms {
		signers[algorithm] = newSigner(t, algorithm, line)
	}
	rapid.Check(t, func(r *rapid.T) {
		text := func(name string) string { return string(rapid.SliceOf(rapid.Byte()).Draw(r, name)) }
		c := assertion.Claims{KeyID: text("key"), Nonce: text("nonce"), Tenant: text("tenant"), Scopes: text("scopes"), Operation: text("op"), Method: text("method"), Target: text("target"), RequestID: text("rid")}
		algorithm := rapid.SampledFrom(algorithms).Draw(r, "algorithm")
		got := verified(t, algorithm, raw, signers[algorithm].Sign(&c, time.Unix(rapid.Int64Range(0, 1<<33).Draw(r, "now"), 0)))
		for name, want := range map[string]string{"sub": c.KeyID, "tenant": c.Tenant, "scope": c.Scopes, "op": c.Operation, "htm": c.Method, "htu": c.Target, "rid": c.RequestID} {
			if got[name] != latin1(want) {
				r.Fatalf("%s is %q, want %q", name, got[name], latin1(want))
			}
		}
	})
}

func TestJWKSet(t *testing.T) {
	a, rawA := seed(1)
	b, rawB := seed(2)
	one, two, secret := newSigner(t, assertion.EdDSA, a, b), newSigner(t, assertion.EdDSA, b), newSigner(t, assertion.HS256, a)
	text := assertion.JWKSet(slices.Concat(one.Keys(), secret.Keys(), two.Keys()))
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if len(set.Keys) != 2 {
		t.Fatalf("%d keys, want 2: %s", len(set.Keys), text)
	}
	for _, raw := range [][]byte{rawA, rawB} {
		public := ed25519.NewKeyFromSeed(raw).Public().(ed25519.PublicKey)
		found := set.Key(thumbprint(t, assertion.EdDSA, raw))
		if len(found) != 1 || !public.Equal(found[0].Key) || found[0].Use != "sig" || found[0].Algorithm != "EdDSA" {
			t.Errorf("the set has %v for %x: %s", found, public, text)
		}
	}
	if got := string(assertion.JWKSet(secret.Keys())); got != "{\"keys\":[]}\n" {
		t.Errorf("of a secret key: %s", got)
	}
}

func TestBadKeys(t *testing.T) {
	line, _ := seed(1)
	for text, want := range map[string]string{
		"":                            "no key",
		"\n \n":                       "no key",
		line + "\n" + line:            "line 2: the same key as on line 1",
		"\n" + line[:40]:              "line 2: want 32 bytes",
		line[:43] + "!":               "line 1: want 32 bytes",
		"secret " + line:              "line 1: want 32 bytes",
		strings.Repeat("A", 43) + "=": "line 1: all its bytes are equal",
	} {
		for _, algorithm := range algorithms {
			_, err := assertion.ParseKeys(algorithm, text)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", text, err, want)
			}
			if err != nil && strings.Contains(err.Error(), line[:20]) {
				t.Errorf("%q: the error repeats the key: %v", text, err)
			}
		}
	}
	if _, err := assertion.ParseAlgorithm("none"); err == nil {
		t.Error("the algorithm none is allowed")
	}
}

func TestBadOptions(t *testing.T) {
	line, _ := seed(1)
	keys, err := assertion.ParseKeys(assertion.EdDSA, line)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "a b", `a"`, `a\`, "ä", "a\n"} {
		if _, err := assertion.NewSigner(assertion.Options{Issuer: name, Audience: "a", Keys: keys}); err == nil {
			t.Errorf("issuer %q is allowed", name)
		}
		if _, err := assertion.NewSigner(assertion.Options{Issuer: "i", Audience: name, Keys: keys}); err == nil {
			t.Errorf("audience %q is allowed", name)
		}
	}
	if _, err := assertion.NewSigner(assertion.Options{Issuer: "i", Audience: "a"}); err == nil {
		t.Error("no key is allowed")
	}
}

// A key must not appear where it is printed.
func TestKeysAreHidden(t *testing.T) {
	line, raw := seed(1)
	for _, algorithm := range algorithms {
		key := newSigner(t, algorithm, line).Keys()[0]
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if text := fmt.Sprintf(format, key); !strings.Contains(text, key.ID()) || strings.Contains(text, fmt.Sprint(raw[:8])) {
				t.Errorf("%s prints %s", format, text)
			}
		}
	}
}

var benchClaims = assertion.Claims{
	RequestID: "0f8f3c1e-8a0b-4e0e-9d57-0c8f0f3a9b11", KeyID: "ck_live_7Qm2n4s8vWxYz0aBcDeFgHiJkL", Nonce: "8f14e45fceea167a5a36dedd4bea2543",
	Tenant: "acme", Scopes: "cards:read cards:write", Operation: "issue_card", Method: "POST", Target: "/api/v1/cards",
}

func TestAllocations(t *testing.T) {
	line, _ := seed(1)
	for algorithm, most := range map[assertion.Algorithm]float64{assertion.EdDSA: 2, assertion.HS256: 2} {
		s := newSigner(t, algorithm, line)
		if got := testing.AllocsPerRun(200, func() { s.Sign(&benchClaims, time.Unix(1, 0)) }); got > most && !raceDetector {
			t.Errorf("%s: %v allocations, more than %v", algorithm, got, most)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	line, _ := seed(1)
	for _, algorithm := range algorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			s := newSigner(b, algorithm, line)
			b.ReportAllocs()
			for b.Loop() {
				s.Sign(&benchClaims, time.Unix(1700000000, 0))
			}
		})
	}
}
