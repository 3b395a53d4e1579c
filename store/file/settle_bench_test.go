package file

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/storetest"
)

// benchKeys returns one claim for each of a number of keys. They differ only in
// the key.
func benchKeys(b testing.TB, s *Store, keys, buckets int) []*store.Claim {
	b.Helper()
	claims := make([]*store.Claim, keys)
	for i := range claims {
		r := &store.Record{ID: fmt.Sprintf("ck_live_%040d", i), Revision: "r1", Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}
		if _, err := s.Put(context.Background(), r, store.PutOptions{}); err != nil {
			b.Fatal(err)
		}
		c := &store.Claim{
			KeyID: r.ID, Revision: r.Revision, NextRevision: "r2", SecretVersion: 1,
			Window: 5 * time.Minute, ReplayFloorAhead: 5 * time.Second, LockAfter: 50,
		}
		for j := range buckets {
			c.Charges = append(c.Charges, ratelimit.NewCharge(
				[]string{"issue_card", "total"}[j],
				ratelimit.Limit{Count: 1e9, Period: time.Second, Burst: 1e9}, 1))
		}
		claims[i] = c
	}
	return claims
}

// fresh makes the claim that of a new request.
func fresh(c *store.Claim, n uint64) {
	c.Now = time.Now()
	c.Timestamp = c.Now.Unix()
	binary.LittleEndian.PutUint64(c.Nonce[:], n)
	binary.LittleEndian.PutUint64(c.Nonce[8:], n*0x9e3779b97f4a7c15)
}

// BenchmarkSettle settles accepted requests, with the journal and with zero to
// two buckets, from one caller and on all processors. For comparison it
// measures the hash and the signature that each request needs anyway.
func BenchmarkSettle(b *testing.B) {
	open := func(b *testing.B) *Store {
		return start(b, filepath.Join(b.TempDir(), "store"), Options{MaxNonces: 1 << 40, MaxNoncesPerKey: 1 << 40, RuntimeDir: b.TempDir()})
	}
	for _, buckets := range []int{0, 1, 2} {
		b.Run(fmt.Sprintf("buckets=%d", buckets), func(b *testing.B) {
			s := open(b)
			c := benchKeys(b, s, 1, buckets)[0]
			b.ReportAllocs()
			for n := uint64(0); b.Loop(); n++ {
				fresh(c, n)
				if v, err := s.Settle(context.Background(), c); err != nil || v.Reason != auth.Accepted {
					b.Fatal(v, err)
				}
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		s := open(b)
		claims := benchKeys(b, s, 64, 1)
		var callers, nonces atomic.Uint64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			mine := *claims[callers.Add(1)%64]
			for pb.Next() {
				fresh(&mine, nonces.Add(1))
				if v, err := s.Settle(context.Background(), &mine); err != nil || v.Reason != auth.Accepted {
					b.Error(v, err)
					return
				}
			}
		})
	})
	b.Run("replayed", func(b *testing.B) {
		s := open(b)
		c := benchKeys(b, s, 1, 1)[0]
		fresh(c, 1)
		_, _ = s.Settle(context.Background(), c)
		b.ReportAllocs()
		for b.Loop() {
			if v, err := s.Settle(context.Background(), c); err != nil || v.Reason != auth.ReplayedNonce {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("counted", func(b *testing.B) {
		s := open(b)
		c := benchKeys(b, s, 1, 1)[0]
		fresh(c, 1)
		c.Failed, c.LockAfter = auth.RuleSignature, 1<<62
		b.ReportAllocs()
		for b.Loop() {
			if v, err := s.Settle(context.Background(), c); err != nil || v.Reason != auth.SignatureMismatch {
				b.Fatal(v, err)
			}
		}
	})
	b.Run("bare SHA-256 and HMAC of 1 KiB", func(b *testing.B) {
		body, secret := make([]byte, 1024), make([]byte, 32)
		toSign := make([]byte, 150)
		for b.Loop() {
			_ = sha256.Sum256(body)
			m := hmac.New(sha256.New, secret)
			m.Write(toSign)
			m.Sum(nil)
		}
	})
}

// BenchmarkReads measures Look and Levels beside Settle.
func BenchmarkReads(b *testing.B) {
	storetest.Bench(b, start(b, filepath.Join(b.TempDir(), "store"), Options{RuntimeDir: b.TempDir()}))
}

// TestNonceMemory: a nonce takes the memory that the documentation states,
// within a fifth, for a million nonces of one key and of a thousand keys.
func TestNonceMemory(t *testing.T) {
	const million = 1_000_000
	row := regexp.MustCompile("memory, `store file` \\| ([0-9]+) bytes per live nonce").FindSubmatch(readFile(t, "../../docs/maintenance.md"))
	if row == nil {
		t.Fatal("docs/maintenance.md does not say what a nonce takes")
	}
	documented, err := strconv.ParseFloat(string(row[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []int{1, 1000} {
		t.Run(fmt.Sprintf("%d keys", keys), func(t *testing.T) {
			tables := make([]keyState, keys)
			before := heap()
			var c store.Claim
			for i := range uint64(million) {
				fresh(&c, i)
				tables[i%uint64(keys)].keepNonce(c.Nonce, newNonce(c.Timestamp, c.Timestamp+311))
			}
			used := float64(heap()-before) / million
			runtime.KeepAlive(tables)
			t.Logf("%.1f bytes a nonce", used)
			if used < 0.8*documented || used > 1.2*documented {
				t.Errorf("%.1f bytes a nonce, the documentation says %.0f", used, documented)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
