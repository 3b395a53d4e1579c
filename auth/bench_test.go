package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

// TestHotPathDoesNotAllocate checks every step of an accepted request but the
// reading of its body, and the steps that a sender without a secret can cause.
func TestHotPathDoesNotAllocate(t *testing.T) {
	headers, table := goodHeaders(), newTable(t)
	r, key := goodRequest(t), goodKey(t)
	two := goodKey(t)
	two.Secrets = append(two.Secrets, two.Secrets[0])
	bad := goodRequest(t)
	bad.Credentials.Signature = "bad"
	sum := sha256.Sum256(nil)
	target, _ := auth.ParseTarget("/api/v1/cards/c1/sensitive?a=1")
	steps := map[string]func(){
		"method":      func() { auth.CheckMethod("POST") },
		"target":      func() { auth.ParseTarget("/api/v1/cards/0b0e4f5e-6f5b-4f9c-8a57-2f4f5d8f9a10/sensitive?a=%20") },
		"operation":   func() { table.Match("GET", target.Path) },
		"upstream":    func() { auth.UpstreamTarget(target) },
		"headers":     func() { auth.ParseCredentials(headers) },
		"judge":       func() { auth.Judge(r, key, fixtureWindow, fixtureNow) },
		"two secrets": func() { auth.Judge(r, two, fixtureWindow, fixtureNow) },
		"bad":         func() { auth.Judge(bad, key, fixtureWindow, fixtureNow) },
		"unknown":     func() { auth.Judge(r, nil, fixtureWindow, fixtureNow) },
		"body hash":   func() { auth.BodyHashEqual(auth.EmptyBodyHash, sum) },
		"nonce":       func() { auth.NonceDigest("n-0001") },
	}
	for name, step := range steps {
		step() // fills the pools
		if n := testing.AllocsPerRun(200, step); n != 0 && !raceDetector {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	r, key := goodRequest(b), goodKey(b)
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			auth.Judge(r, key, fixtureWindow, fixtureNow)
		}
	})
	b.Run("unknown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			auth.Judge(r, nil, fixtureWindow, fixtureNow)
		}
	})
}

// BenchmarkHMAC measures the work that Judge cannot avoid: a bare HMAC-SHA256
// of the same string to sign, with its state made once and with a new state
// each time.
func BenchmarkHMAC(b *testing.B) {
	c := goodRequest(b).Credentials
	text := auth.AppendStringToSign(nil, "GET", "/api/v1/orders", c.Timestamp, c.Nonce, c.BodyHash)
	b.Run("prepared", func(b *testing.B) {
		mac := hmac.New(sha256.New, []byte(fixtureSecret))
		var sum [sha256.Size]byte
		b.ReportAllocs()
		for b.Loop() {
			mac.Reset()
			mac.Write(text)
			mac.Sum(sum[:0])
		}
	})
	b.Run("anew", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			mac := hmac.New(sha256.New, []byte(fixtureSecret))
			mac.Write(text)
			mac.Sum(nil)
		}
	})
}

func BenchmarkRequestLine(b *testing.B) {
	table := newTable(b)
	b.ReportAllocs()
	for b.Loop() {
		target, _ := auth.ParseTarget("/api/v1/cards/0b0e4f5e-6f5b-4f9c-8a57-2f4f5d8f9a10/sensitive?a=%20")
		table.Match("GET", target.Path)
	}
}

func BenchmarkParseCredentials(b *testing.B) {
	headers := goodHeaders()
	b.ReportAllocs()
	for b.Loop() {
		auth.ParseCredentials(headers)
	}
}
