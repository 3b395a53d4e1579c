// Package assertion makes the signed statement about one request that an issuer
// can verify by itself: a compact JWS (RFC 7515) with the claims of a JWT (RFC
// 7519). It binds the caller to the method, the target and the body of the
// request as it is forwarded. The package uses no clock and no random numbers.
//
// docs/upstream.md describes the claims for those who verify them.
//
// Begin with [Signer].
package assertion

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lifetime is how long an assertion is valid after it was made.
const Lifetime = 60 * time.Second

// Claims are what an assertion says about one request.
type Claims struct {
	RequestID string // rid: X-Request-Id
	KeyID     string // sub: the id of the API key
	Nonce     string // X-Nonce; with KeyID it becomes jti
	Tenant    string // tenant: of the key
	Scopes    string // scope: of the key, separated by spaces
	Operation string // op: the operation's name

	Method string            // htm
	Target string            // htu: the request target as forwarded
	Digest [sha256.Size]byte // digest: the SHA-256 of the body as forwarded
}

// Options are the parts of all assertions of a signer.
type Options struct {
	Issuer   string // iss
	Audience string // aud
	Keys     []*Key // the first signs; at least one
}

// A Signer makes assertions. It is safe for concurrent use.
type Signer struct {
	keys   []*Key
	prefix []byte // the header, a dot, and the constant claims, in base64url
}

// NewSigner returns a signer. It fails if a name is empty or holds a byte that is
// not visible ASCII, or if there is no key.
func NewSigner(o Options) (*Signer, error) {
	for _, name := range []struct{ option, value string }{{"issuer", o.Issuer}, {"audience", o.Audience}} {
		if name.value == "" || strings.ContainsFunc(name.value, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return nil, errors.New(name.option + ": write a name of visible ASCII characters without quotation marks")
		}
	}
	if len(o.Keys) == 0 {
		return nil, errors.New("no key to sign with")
	}
	first := o.Keys[0]
	s := &Signer{keys: o.Keys}
	s.prefix = base64.RawURLEncoding.AppendEncode(nil, []byte(`{"alg":"`+string(first.algorithm)+`","kid":"`+first.id+`","typ":"JWT"}`))
	claims := `{"iss":"` + o.Issuer + `","aud":"` + o.Audience + `",`
	// Spaces are allowed there. With a multiple of three bytes the encoded claims
	// after these do not depend on these.
	for len(claims)%3 != 0 {
		claims += " "
	}
	s.prefix = base64.RawURLEncoding.AppendEncode(append(s.prefix, '.'), []byte(claims))
	return s, nil
}

// Keys returns the keys: the one that signs, and those that are live besides it.
func (s *Signer) Keys() []*Key { return s.keys }

// buffers are two per assertion: the claims as JSON, and the JWS.
type buffers struct{ claims, jws []byte }

var pooledBuffers = sync.Pool{New: func() any {
	return &buffers{claims: make([]byte, 0, 1<<10), jws: make([]byte, 0, 2<<10)}
}}

// maxPooled is the largest buffer that is kept, in bytes.
const maxPooled = 16 << 10

// Sign returns the assertion of a request that is forwarded at now.
func (s *Signer) Sign(c *Claims, now time.Time) string {
	b := pooledBuffers.Get().(*buffers)
	b.claims = c.append(b.claims[:0], now.Unix())
	b.jws = base64.RawURLEncoding.AppendEncode(append(b.jws[:0], s.prefix...), b.claims)
	b.jws = s.keys[0].appendSignature(b.jws)
	text := string(b.jws)
	if cap(b.jws) <= maxPooled {
		pooledBuffers.Put(b)
	}
	return text
}

// append appends the claims that are not constant, and the closing brace.
func (c *Claims) append(b []byte, now int64) []byte {
	b = strconv.AppendInt(append(b, `"iat":`...), now, 10)
	b = strconv.AppendInt(append(b, `,"exp":`...), now+int64(Lifetime/time.Second), 10)
	id := useID(c.KeyID, c.Nonce)
	b = append(base64.RawURLEncoding.AppendEncode(append(b, `,"jti":"`...), id[:]), '"')
	b = appendClaim(b, `,"rid":"`, c.RequestID)
	b = appendClaim(b, `,"sub":"`, c.KeyID)
	b = appendClaim(b, `,"tenant":"`, c.Tenant)
	b = appendClaim(b, `,"scope":"`, c.Scopes)
	b = appendClaim(b, `,"op":"`, c.Operation)
	b = appendClaim(b, `,"htm":"`, c.Method)
	b = appendClaim(b, `,"htu":"`, c.Target)
	b = base64.StdEncoding.AppendEncode(append(b, `,"digest":"`...), c.Digest[:])
	return append(b, `"}`...)
}

// useID returns the SHA-256 of key id, line feed and nonce. No two accepted
// requests have the same, because the gateway accepts a nonce of a key once.
func useID(keyID, nonce string) [sha256.Size]byte {
	var buf [512]byte
	return sha256.Sum256(append(append(append(buf[:0], keyID...), '\n'), nonce...))
}

// appendClaim appends a name and the text as a JSON string. Each byte of the text
// is the character with that number, as HTTP libraries read a head (ISO 8859-1),
// so that a target with any bytes is valid JSON and no two are the same.
func appendClaim(b []byte, name, text string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, name...)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < 0x80:
			b = append(b, c)
		default:
			b = append(b, 0xc0|c>>6, 0x80|c&0x3f)
		}
	}
	return append(b, '"')
}

// JWKSet returns the JWK set (RFC 7517) of the public keys, without duplicates
// and sorted by their ids. Keys of HS256 are secret and never in it.
func JWKSet(keys []*Key) []byte {
	var public []*Key
	for _, k := range keys {
		if k.algorithm == EdDSA {
			public = append(public, k)
		}
	}
	slices.SortFunc(public, func(a, b *Key) int { return strings.Compare(a.id, b.id) })
	public = slices.CompactFunc(public, func(a, b *Key) bool { return a.id == b.id })
	set := []byte(`{"keys":[`)
	for i, k := range public {
		if i > 0 {
			set = append(set, ',')
		}
		set = append(set, `{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"`+k.id+`","x":"`+k.x()+`"}`...)
	}
	return append(set, "]}\n"...)
}

// An Algorithm is how assertions are signed, by its name in the header "alg".
type Algorithm string

// The algorithms. With EdDSA issuers hold public keys only. HS256 is cheaper, but
// whoever verifies it can also sign.
const (
	EdDSA Algorithm = "EdDSA" // Ed25519, RFC 8037
	HS256 Algorithm = "HS256" // HMAC-SHA256, RFC 7518, section 3.2
)

// ParseAlgorithm returns the algorithm with the name, and EdDSA for the empty
// name. The error lists the names.
func ParseAlgorithm(name string) (Algorithm, error) {
	switch Algorithm(name) {
	case "", EdDSA:
		return EdDSA, nil
	case HS256:
		return HS256, nil
	default:
		return "", fmt.Errorf("algorithm %q: write EdDSA or HS256", name)
	}
}

// keySize is the size of an Ed25519 seed and of a key of HS256, in bytes.
const keySize = 32

// A Key signs assertions. It is immutable, and its String and GoString hide it.
type Key struct {
	algorithm Algorithm
	id        string
	private   ed25519.PrivateKey // of EdDSA
	macs      *sync.Pool         // of hash.Hash, of HS256
}

// ParseKeys returns the keys of the text, one on each line: 32 bytes in standard
// base64, which are an Ed25519 seed or a key of HS256. Blank lines and white
// space around a key are allowed. An error names the wrong line by its number
// and repeats nothing of it.
func ParseKeys(algorithm Algorithm, text string) ([]*Key, error) {
	var keys []*Key
	var lines []int
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(raw) != keySize {
			return nil, fmt.Errorf("line %d: want 32 bytes in standard base64 (44 characters), as `openssl rand -base64 32` makes them", i+1)
		}
		if !slices.ContainsFunc(raw, func(b byte) bool { return b != raw[0] }) {
			return nil, fmt.Errorf("line %d: all its bytes are equal, so it is not random; make one with `openssl rand -base64 32`", i+1)
		}
		key := newKey(algorithm, raw)
		if at := slices.IndexFunc(keys, func(k *Key) bool { return k.id == key.id }); at >= 0 {
			return nil, fmt.Errorf("line %d: the same key as on line %d", i+1, lines[at])
		}
		keys, lines = append(keys, key), append(lines, i+1)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key: want at least one line")
	}
	return keys, nil
}

// newKey makes a key. Its id is the thumbprint of RFC 7638, which any JOSE
// library can compute from the key.
func newKey(algorithm Algorithm, raw []byte) *Key {
	k := &Key{algorithm: algorithm}
	members := `{"k":"` + base64.RawURLEncoding.EncodeToString(raw) + `","kty":"oct"}`
	if algorithm == EdDSA {
		k.private = ed25519.NewKeyFromSeed(raw)
		members = `{"crv":"Ed25519","kty":"OKP","x":"` + k.x() + `"}`
	} else {
		k.macs = &sync.Pool{New: func() any { return hmac.New(sha256.New, raw) }}
	}
	sum := sha256.Sum256([]byte(members))
	k.id = base64.RawURLEncoding.EncodeToString(sum[:])
	return k
}

// x returns the public key as the member "x" of a JWK (RFC 8037).
func (k *Key) x() string {
	public, _ := k.private.Public().(ed25519.PublicKey)
	return base64.RawURLEncoding.EncodeToString(public)
}

// ID returns the name of the key in the header "kid".
func (k *Key) ID() string { return k.id }

// String names the key and hides it.
func (k *Key) String() string { return "[key " + k.id + "]" }

// GoString names the key and hides it.
func (k *Key) GoString() string { return k.String() }

// appendSignature appends the signature of b, after a dot, in
// base64url.
func (k *Key) appendSignature(b []byte) []byte {
	var signature [ed25519.SignatureSize]byte
	size := sha256.Size
	if k.algorithm == EdDSA {
		size = copy(signature[:], ed25519.Sign(k.private, b))
	} else {
		mac := k.macs.Get().(hash.Hash)
		mac.Reset()
		mac.Write(b)
		mac.Sum(signature[:0])
		k.macs.Put(mac)
	}
	b = append(b, '.')
	return base64.RawURLEncoding.AppendEncode(b, signature[:size])
}
