package auth_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

func goodHeaders() http.Header {
	h := make(http.Header)
	h.Set("X-API-Key", fixtureID)
	h.Set("X-Timestamp", "1750000000")
	h.Set("X-Nonce", "n-0001")
	h.Set("X-Body-Hash", auth.EmptyBodyHash)
	h.Set("X-Signature", "NNO/BBsHEctrd5Y0rWJfisaSYxUa3RYwHAvQusgaug0=")
	return h
}

func TestMissingHeadersAreNamedWithoutTheirValues(t *testing.T) {
	tests := []struct {
		name   string
		change func(http.Header)
		want   string
	}{
		{"missing", func(h http.Header) { h.Del("X-API-Key") }, "X-Api-Key is missing"},
		{"empty", func(h http.Header) { h.Set("X-Timestamp", "") }, "X-Timestamp is empty"},
		{"twice", func(h http.Header) { h.Add("X-Signature", "hidden") }, "X-Signature is present more than once"},
		{"long nonce", func(h http.Header) { h.Set("X-Nonce", strings.Repeat("hidden", 50)) }, "X-Nonce is longer than 256 characters"},
		{"bad nonce", func(h http.Header) { h.Set("X-Nonce", "hid den") }, "X-Nonce holds a character that is not visible ASCII: a blank at position 4"},
		{"two faults", func(h http.Header) { h.Del("X-Nonce"); h.Del("X-Body-Hash") }, "X-Nonce is missing, X-Body-Hash is missing"},
	}
	for _, test := range tests {
		h := goodHeaders()
		test.change(h)
		c, refusal := auth.ParseCredentials(h)
		if refusal == nil || c != (auth.Credentials{}) {
			t.Errorf("%s: not refused", test.name)
			continue
		}
		if refusal.Reason != auth.MissingHeaders || refusal.Log != test.want {
			t.Errorf("%s: got %v %q, want the log %q", test.name, refusal.Reason, refusal.Log, test.want)
		}
		if refusal.Text() != "Missing required authentication headers" {
			t.Errorf("%s: the client reads %q", test.name, refusal.Text())
		}
	}
}

func TestMalformedTimestampIsNoMissingHeader(t *testing.T) {
	h := goodHeaders()
	h.Set("X-Timestamp", "01750000000")
	c, refusal := auth.ParseCredentials(h)
	if refusal != nil || c.Unix != 0 || c.Timestamp != "01750000000" {
		t.Errorf("got %+v, %v", c, refusal)
	}
}

// TestNonceOutlivesItsTimestamp accepts a request at each second it can pass
// and asks whether its nonce is still known at each later second it can pass.
func TestNonceOutlivesItsTimestamp(t *testing.T) {
	const window = 5 * time.Minute
	const stamp = 1750000000
	for accepted := int64(stamp - 300); accepted <= stamp+300; accepted++ {
		now := time.Unix(accepted, 250_000_000)
		if !auth.InWindow(now, stamp, window) {
			t.Fatalf("the request does not pass at %d", accepted)
		}
		lifetime := auth.NonceLifetime(now, stamp, window)
		dies := now.Add(lifetime)
		if auth.InWindow(dies, stamp, window) || lifetime < window {
			t.Errorf("accepted at %+d s: the nonce lives only %v", accepted-stamp, lifetime)
		}
		if lifetime > 2*window+11*time.Second {
			t.Errorf("accepted at %+d s: the nonce lives %v", accepted-stamp, lifetime)
		}
	}
}

func TestNonceDigest(t *testing.T) {
	// printf n-0001 | sha256sum
	if got := fmt.Sprintf("%x", auth.NonceDigest("n-0001")); got != "cd5239ca6fcd137eadb5c2f15ff5689a" {
		t.Errorf("got %s", got)
	}
}

func FuzzParseCredentials(f *testing.F) {
	f.Add("X-Nonce", "n-0001", "", uint8(1))
	f.Add("X-Nonce", "", "n", uint8(2))
	f.Add("x_nonce", "a, b", "", uint8(1))
	f.Add("X-Api-Key", "k\n", "", uint8(1))
	f.Add("X-Timestamp", "１７", "", uint8(0))
	f.Fuzz(func(t *testing.T, name, first, second string, count uint8) {
		h := goodHeaders()
		key := http.CanonicalHeaderKey(name)
		h[key] = []string{first, second}[:min(count, 2)]
		c, refusal := auth.ParseCredentials(h)
		if refusal != nil {
			if refusal.Reason != auth.MissingHeaders || refusal.Log == "" {
				t.Fatalf("refused with %v", refusal)
			}
			return
		}
		for i, value := range []string{c.KeyID, c.Timestamp, c.Nonce, c.BodyHash, c.Signature} {
			header := []string{auth.HeaderKeyID, auth.HeaderTimestamp, auth.HeaderNonce, auth.HeaderBodyHash, auth.HeaderSignature}[i]
			if len(h[header]) != 1 || h[header][0] != value || value == "" {
				t.Fatalf("%s is %q in %q", header, value, h[header])
			}
		}
		if len(c.Nonce) > 256 || strings.ContainsFunc(c.Nonce, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			t.Fatalf("nonce %q", c.Nonce)
		}
	})
}

// A store measures the life of a nonce by its own clock, and gateways whose clocks
// differ from it by up to five seconds may use it: one accepts the request, and the other
// would accept it last. The nonce outlives that moment; the margin of ten seconds is just
// enough.
func TestNonceOutlivesItsRequestOnAnyClock(t *testing.T) {
	closest := time.Hour
	for _, window := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Minute} {
		for _, fraction := range []time.Duration{0, time.Millisecond, 999 * time.Millisecond} {
			for _, first := range []time.Duration{-5 * time.Second, 0, 5 * time.Second} {
				for _, second := range []time.Duration{-5 * time.Second, 0, 5 * time.Second} {
					settled := time.Unix(1_800_000_000, 0).Add(fraction) // by the store's clock
					now := settled.Add(first)
					for ahead := -int64(window / time.Second); ahead <= int64(window/time.Second); ahead++ {
						stamp := now.Unix() + ahead
						end := settled.Add(auth.NonceLifetime(now, stamp, window))
						last := time.Unix(stamp, 0).Add(window + time.Second - 1) // by the second gateway's clock
						if !auth.InWindow(last, stamp, window) || auth.InWindow(last.Add(1), stamp, window) {
							t.Fatalf("%s is not the last moment of %d", last, stamp)
						}
						left := end.Sub(last.Add(-second))
						closest = min(closest, left)
						if left <= 0 {
							t.Errorf("window %s, clocks %s and %s, stamped %d s ahead: the nonce ends %s too early", window, first, second, ahead, -left)
						}
					}
				}
			}
		}
	}
	if closest > time.Second {
		t.Errorf("the margin is %s larger than two clocks need", closest)
	}
}
