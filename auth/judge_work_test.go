package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"net/http"
	"testing"
	"time"
)

// work counts what a judgement computes: one entry per HMAC, the number of
// bytes that it is over.
type work struct{ hashed []int }

// countedHash is a hash that reports to the work.
type countedHash struct {
	hash.Hash
	w     *work
	bytes int
}

func (c *countedHash) Reset() { c.bytes = 0; c.Hash.Reset() }

func (c *countedHash) Write(p []byte) (int, error) { c.bytes += len(p); return c.Hash.Write(p) }

func (c *countedHash) Sum(b []byte) []byte {
	c.w.hashed = append(c.w.hashed, c.bytes)
	return c.Hash.Sum(b)
}

// secret returns a secret whose HMACs are counted.
func (w *work) secret(version int, text string, expires time.Time) *Secret {
	s := NewSecret(version, text, expires)
	s.states.New = func() any { return &macState{mac: &countedHash{Hash: hmac.New(sha256.New, s.text), w: w}} }
	return s
}

var workNow = time.Unix(1_800_000_000, 0)

// signedBy returns a request that is signed with the secret.
func signedBy(t *testing.T, secret string) *Request {
	t.Helper()
	r := &Request{Method: "GET", Target: "/api/v1/cards/c1"}
	stamp, nonce := "1800000000", "n"
	text := AppendStringToSign(nil, r.Method, r.Target, stamp, nonce, EmptyBodyHash)
	h := http.Header{}
	for name, value := range map[string]string{
		"X-API-Key": "k", "X-Timestamp": stamp, "X-Nonce": nonce, "X-Body-Hash": EmptyBodyHash,
		"X-Signature": NewSecret(1, secret, time.Time{}).Sign(text),
	} {
		h.Set(name, value)
	}
	var refusal *Refusal
	if r.Credentials, refusal = ParseCredentials(h); refusal != nil {
		t.Fatal(refusal)
	}
	return r
}

// A refused signature costs the same number of HMACs over the same bytes, for
// every key that exists or not. So its time does not show how many secrets the key
// has, or which of them have ended. What a gateway does besides differs: it looks an
// existing key up, and counts the failure.
func TestUnprovenRequestsCostTheSame(t *testing.T) {
	later, before := workNow.Add(time.Hour), workNow.Add(-time.Hour)
	keys := map[string]func(*work) *Key{
		"unknown":        func(*work) *Key { return nil },
		"without secret": func(*work) *Key { return &Key{} },
		"one live":       func(w *work) *Key { return &Key{Secrets: []*Secret{w.secret(1, "one", time.Time{})}} },
		"two live": func(w *work) *Key {
			return &Key{Secrets: []*Secret{w.secret(2, "two", time.Time{}), w.secret(1, "one", later)}}
		},
		"one ended": func(w *work) *Key {
			return &Key{Secrets: []*Secret{w.secret(2, "two", time.Time{}), w.secret(1, "one", before)}}
		},
		"retired": func(w *work) *Key {
			return &Key{Secrets: []*Secret{w.secret(3, "three", time.Time{})}, Retired: []*Secret{w.secret(2, "two", before), w.secret(1, "one", before)}}
		},
		"as many as can be": func(w *work) *Key {
			return &Key{
				Secrets: []*Secret{w.secret(4, "four", time.Time{}), w.secret(3, "three", later)},
				Retired: []*Secret{w.secret(2, "two", before), w.secret(1, "a secret of nobody", before)},
			}
		},
		"all ended": func(w *work) *Key {
			return &Key{Secrets: []*Secret{w.secret(2, "two", before), w.secret(1, "one", before)}}
		},
		"disabled, expired, locked": func(w *work) *Key {
			return &Key{Disabled: true, ExpiresAt: before, Lock: &Lock{}, Secrets: []*Secret{w.secret(1, "one", time.Time{})}}
		},
	}
	r := signedBy(t, "a secret of nobody")
	size := len(AppendStringToSign(nil, r.Method, r.Target, r.Credentials.Timestamp, r.Credentials.Nonce, r.Credentials.BodyHash))
	want := fmt.Sprint([]int{size, size, size, size})
	for name, key := range keys {
		w := countUnknown(t)
		if j := Judge(r, key(w), time.Minute, workNow); j.SecretVersion != 0 {
			t.Errorf("%s: verified with secret %d", name, j.SecretVersion)
		}
		if got := fmt.Sprint(w.hashed); got != want {
			t.Errorf("%s: HMACs over %s bytes, want %s", name, got, want)
		}
	}
}

// Every secret of a key is tried, also when the first one fits.
func TestEverySecretIsTried(t *testing.T) {
	for fits, text := range map[int]string{2: "two", 1: "one"} {
		w := countUnknown(t)
		key := &Key{Secrets: []*Secret{w.secret(2, "two", time.Time{}), w.secret(1, "one", workNow.Add(time.Hour))}}
		j := Judge(signedBy(t, text), key, time.Minute, workNow)
		if j.SecretVersion != fits || len(w.hashed) != 2 {
			t.Errorf("signed with secret %d: verified with %d, %d HMACs, want 2", fits, j.SecretVersion, len(w.hashed))
		}
	}
}

// countUnknown counts the HMACs of standIn, until the test ends.
func countUnknown(t *testing.T) *work {
	w := &work{}
	was := standIn
	standIn = w.secret(0, "stands in", time.Time{})
	t.Cleanup(func() { standIn = was })
	return w
}
