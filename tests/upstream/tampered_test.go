package upstream

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A request is what a recipe gets, in the form that the programs check read.
type request struct {
	Assertions []string
	Method     string
	Target     string
	Body       []byte
	Now        int64

	name string
	want []string // "accepted", or the names that a refusal may have
}

// A genuine is a request as the issuer has received it, with the key that its
// assertion was signed with.
type genuine struct {
	request
	alg    string
	key    []byte
	header map[string]any
	claims map[string]any

	published map[string]any // the JWK set
}

// newGenuine decodes the assertion.
func newGenuine(t testing.TB, r request, alg string, key []byte) *genuine {
	t.Helper()
	g := &genuine{request: r, alg: alg, key: key}
	parts := strings.Split(r.Assertions[0], ".")
	for i, into := range []*map[string]any{&g.header, &g.claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func signature(alg string, key []byte, signed string) string {
	if alg == "HS256" {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(key), []byte(signed)))
}

// resigned returns an assertion of the same key with changed claims; nil removes one.
func (g *genuine) resigned(claims map[string]any) string {
	signed := encoded(g.header) + "." + encoded(changed(g.claims, claims))
	return signed + "." + signature(g.alg, g.key, signed)
}

// headed returns an assertion with a changed header, signed with another
// algorithm or key.
func (g *genuine) headed(header map[string]any, alg string, key []byte) string {
	signed := encoded(changed(g.header, header)) + "." + encoded(changed(g.claims, map[string]any{"jti": rand.Text()}))
	if alg == "none" {
		return signed + "."
	}
	return signed + "." + signature(alg, key, signed)
}

func changed(from, by map[string]any) map[string]any {
	all := maps.Clone(from)
	for name, value := range by {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// tampered returns the request and everything that an attacker behind the gateway
// might make of it.
func (g *genuine) tampered() []request {
	all := slices.Concat(g.forms(), g.headers(), g.otherClaims(), g.otherRequests())
	all = append(all, g.as("the untouched request", g.Assertions[0], "accepted"))
	all = append(all, g.as("used a second time", g.Assertions[0], "jti"))
	return append(all, g.as("signed with the same key, another jti", g.resigned(map[string]any{"jti": rand.Text()}), "accepted"))
}

func (g *genuine) as(name, assertion string, want ...string) request {
	r := g.request
	r.name, r.Assertions, r.want = name, []string{assertion}, want
	return r
}

// forms are assertions that are none.
func (g *genuine) forms() []request {
	token := g.Assertions[0]
	parts := strings.Split(token, ".")
	flipped := []byte(parts[2])
	flipped[10] = 'A'
	if parts[2][10] == 'A' {
		flipped[10] = 'B'
	}
	other := encoded(changed(g.claims, map[string]any{"tenant": "evil"}))
	none, two := g.as("no assertion", "", "form"), g.as("two assertions", "", "form")
	none.Assertions, two.Assertions = nil, []string{token, token}
	return []request{
		none, two,
		g.as("an empty assertion", "", "form"),
		g.as("two in one line", token+", "+token, "form", "signature"),
		g.as("no dots", strings.ReplaceAll(token, ".", ""), "form"),
		g.as("two parts", parts[0]+"."+parts[1], "form"),
		g.as("four parts", token+"."+parts[2], "form"),
		g.as("garbage", "a.b.c", "form", "kid"),
		g.as("header is no JSON", "Zm9v."+parts[1]+"."+parts[2], "form"),
		g.as("claims are no JSON", g.raw("foo"), "form"),
		g.as("claims are a list", g.raw(`["sub"]`), "form", "iss"),
		g.as("no signature", parts[0]+"."+parts[1]+".", "signature", "form"),
		g.as("a shorter signature", token[:len(token)-8], "signature", "form"),
		g.as("a changed signature", parts[0]+"."+parts[1]+"."+string(flipped), "signature"),
		g.as("a signature of zeros", parts[0]+"."+parts[1]+"."+strings.Repeat("A", len(parts[2])), "signature", "form"),
		g.as("another tenant without a signature", parts[0]+"."+other+"."+parts[2], "signature"),
	}
}

// raw returns any text, signed with the right key.
func (g *genuine) raw(claims string) string {
	signed := encoded(g.header) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return signed + "." + signature(g.alg, g.key, signed)
}

// headers are assertions whose header leads to another algorithm or key.
func (g *genuine) headers() []request {
	stranger := make([]byte, 32)
	rand.Read(stranger)
	public, _ := ed25519.NewKeyFromSeed(g.key).Public().(ed25519.PublicKey)
	strangers, _ := ed25519.NewKeyFromSeed(stranger).Public().(ed25519.PublicKey)
	embedded := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(strangers)}
	other := "HS256"
	if g.alg == other {
		other = "EdDSA"
	}
	return []request{
		g.as("alg none, unsigned", g.headed(map[string]any{"alg": "none"}, "none", nil), "alg", "form"),
		g.as("alg None, unsigned", g.headed(map[string]any{"alg": "None"}, "none", nil), "alg", "form"),
		g.as("alg none, signed", g.headed(map[string]any{"alg": "none"}, g.alg, g.key), "alg", "form"),
		g.as("alg empty", g.headed(map[string]any{"alg": ""}, g.alg, g.key), "alg", "form"),
		g.as("alg missing", g.headed(map[string]any{"alg": nil}, g.alg, g.key), "alg", "form"),
		g.as("the other algorithm with the key", g.headed(map[string]any{"alg": other}, other, g.key), "alg"),
		g.as("HS256 with the public key", g.headed(map[string]any{"alg": "HS256"}, "HS256", public), "alg", "signature"),
		g.as("HS256 with an empty key", g.headed(map[string]any{"alg": "HS256"}, "HS256", nil), "alg", "signature"),
		g.as("alg RS256", g.headed(map[string]any{"alg": "RS256"}, g.alg, g.key), "alg", "form"),
		g.as("unknown kid", g.headed(map[string]any{"kid": "unknown"}, g.alg, stranger), "kid"),
		g.as("unknown kid, right key", g.headed(map[string]any{"kid": "unknown"}, g.alg, g.key), "kid"),
		g.as("kid missing", g.headed(map[string]any{"kid": nil}, g.alg, g.key), "kid"),
		g.as("kid empty", g.headed(map[string]any{"kid": ""}, g.alg, g.key), "kid"),
		g.as("another key under the kid", g.headed(nil, g.alg, stranger), "signature"),
		g.as("a key in the header", g.headed(map[string]any{"jwk": embedded, "kid": "mine"}, g.alg, stranger), "kid", "form"),
		g.as("a key in the header under the kid", g.headed(map[string]any{"jwk": embedded}, g.alg, stranger), "signature", "form"),
		g.as("a critical extension", g.headed(map[string]any{"crit": []string{"evil"}, "evil": true}, g.alg, g.key), "form", "signature"),
	}
}

// otherClaims are assertions that the gateway has signed for something else.
func (g *genuine) otherClaims() []request {
	var all []request
	add := func(name, claim string, value any) {
		all = append(all, g.as(name, g.resigned(map[string]any{claim: value, "jti": rand.Text()}), claim))
	}
	add("another audience", "aud", "other.example")
	add("an audience that begins so", "aud", g.claims["aud"].(string)+".evil")
	add("an empty audience", "aud", "")
	add("another issuer", "iss", "other-gateway")
	add("expired an hour ago", "exp", g.Now-3600)
	add("expired a moment ago", "exp", g.Now-6)
	add("valid until a text", "exp", "never")
	add("of the future", "iat", g.Now+3600)
	for _, claim := range []string{"iss", "aud", "exp", "htm", "htu", "digest"} {
		add("without "+claim, claim, nil)
	}
	add("for a number as the method", "htm", 1)
	add("for another target", "htu", "/api/v1/cards/c1/unfreeze")
	add("with a digest in hex", "digest", hexOf(g.Body))
	all = append(all, g.as("without jti", g.resigned(map[string]any{"jti": nil}), "jti"))
	late := g.as("sent again an hour later", g.Assertions[0], "exp")
	late.Now += 3600
	return append(all, late)
}

func hexOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// otherRequests carry the genuine assertion to another method, target or body.
func (g *genuine) otherRequests() []request {
	var all []request
	method := func(method string) {
		r := g.as("method "+method, g.Assertions[0], "htm")
		r.Method = method
		all = append(all, r)
	}
	target := func(target string) {
		r := g.as("target "+target, g.Assertions[0], "htu")
		r.Target = target
		all = append(all, r)
	}
	body := func(name, text string) {
		r := g.as(name, g.Assertions[0], "digest")
		r.Body = []byte(text)
		all = append(all, r)
	}
	for _, m := range []string{"GET", "PUT", "DELETE", "post", ""} {
		method(m)
	}
	for _, other := range []string{
		g.Target + "&a=2", g.Target + "/", "/api/v1/cards", "/api/v1/Cards?b=%2f&a=1", "/api/v1/cards?a=1&b=%2f", "/api/v1/cards?b=/&a=1",
		"/api/v1/cards?b=%2F&a=1", "/api/v1//cards?b=%2f&a=1", "http://issuer.test" + g.Target, "",
	} {
		target(other)
	}
	text := string(g.Body)
	body("no body", "")
	body("one byte more", text+" ")
	body("one byte less", text[:len(text)-1])
	body("another amount", strings.Replace(text, "1", "9", 1))
	body("another spelling of the same JSON", strings.Replace(text, ":", ": ", 1))
	return all
}
