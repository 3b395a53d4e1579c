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
	"strings"
	"sync"
)

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
