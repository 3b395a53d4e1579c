package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestEmptyBodyHash(t *testing.T) {
	for _, body := range [][]byte{nil, {}} {
		if got := auth.BodyHash(body); got != auth.EmptyBodyHash {
			t.Errorf("the hash of no body is %s", got)
		}
	}
}

func TestBodyHashEqualTakesOneSpelling(t *testing.T) {
	sum := sha256.Sum256([]byte("a body"))
	right := auth.EncodeHash(sum)
	if !auth.BodyHashEqual(right, sum) {
		t.Error("the right hash does not match")
	}
	for _, wrong := range []string{
		"", "=", right[:43], right + "=", right + "\x00", right + "\n", " " + right, strings.Repeat(right, 1000),
		strings.ToLower(right), base64.RawStdEncoding.EncodeToString(sum[:]), auth.EmptyBodyHash,
	} {
		if auth.BodyHashEqual(wrong, sum) {
			t.Errorf("%.60q matches", wrong)
		}
	}
}

// FuzzBodyHashEqual writes one byte over the correct text. The result is equal
// only if that byte was there before.
func FuzzBodyHashEqual(f *testing.F) {
	f.Add([]byte("a body"), 42, byte('A'))
	f.Add([]byte(""), 43, byte('\n'))
	f.Fuzz(func(t *testing.T, body []byte, at int, c byte) {
		sum := sha256.Sum256(body)
		text := []byte(auth.EncodeHash(sum))
		if at < 0 || at >= len(text) {
			return
		}
		same := text[at] == c
		text[at] = c
		if auth.BodyHashEqual(string(text), sum) != same {
			t.Fatalf("%q for %x", text, sum)
		}
	})
}

// FuzzStringToSign takes two requests that the gateway could accept and
// demands that they share a string to sign only if they are equal.
func FuzzStringToSign(f *testing.F) {
	f.Add("GET", "/api/v1/x", "1750000000", "n1", "h", "GET", "/api/v1/x\n1750000000", "n1", "h", "")
	f.Add("GET", "/api/v1/x", "1750000000", "n1", "h", "GET", "/api/v1/x", "1750000000", "n1", "h")
	f.Add("GET", "/api/v1/x%0a", "1750000000", "n", "1\nh", "GET", "/api/v1/x%0a", "1750000000", "n\n1", "h")
	f.Fuzz(func(t *testing.T, m1, t1, s1, n1, h1, m2, t2, s2, n2, h2 string) {
		a, b := [5]string{m1, t1, s1, n1, h1}, [5]string{m2, t2, s2, n2, h2}
		if !couldBeAccepted(a) || !couldBeAccepted(b) {
			return
		}
		x := string(auth.AppendStringToSign(nil, a[0], a[1], a[2], a[3], a[4]))
		y := string(auth.AppendStringToSign(nil, b[0], b[1], b[2], b[3], b[4]))
		if (x == y) != (a == b) {
			t.Fatalf("%q and %q share %q", a, b, x)
		}
	})
}

// couldBeAccepted reports whether method, target, timestamp and nonce pass the
// checks that come before the signature. A body hash that is not 44 characters
// of base64 equals that of no body.
func couldBeAccepted(fields [5]string) bool {
	_, refusal := auth.ParseTarget(fields[1])
	h := goodHeaders()
	h[auth.HeaderTimestamp] = []string{fields[2]}
	h[auth.HeaderNonce] = []string{fields[3]}
	h[auth.HeaderBodyHash] = []string{fields[4]}
	c, missing := auth.ParseCredentials(h)
	return auth.CheckMethod(fields[0]) == nil && refusal == nil && missing == nil && c.Unix != 0
}
