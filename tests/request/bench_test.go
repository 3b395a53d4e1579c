package request

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

const (
	benchID     = "ak_test_1"
	benchSecret = "test_secret_0123456789abcdef"
	benchTarget = "/api/v1/cards"
	benchWindow = 5 * time.Minute
)

// benchBody is a POST of 1 KiB.
var benchBody = make([]byte, 1024)

// benchRequest is the data of a request when the gateway begins to judge it.
type benchRequest struct{ header http.Header }

// signAnew gives the request the next nonce and signs it. This is the client's
// work, done while the timer is stopped.
func (r *benchRequest) signAnew(now time.Time, n int) {
	timestamp, nonce := strconv.FormatInt(now.Unix(), 10), "n-"+strconv.Itoa(n)
	sum := sha256.Sum256(benchBody)
	hash := base64.StdEncoding.EncodeToString(sum[:])
	mac := hmac.New(sha256.New, []byte(benchSecret))
	mac.Write([]byte("POST\n" + benchTarget + "\n" + timestamp + "\n" + nonce + "\n" + hash))
	r.header = http.Header{
		auth.HeaderKeyID: {benchID}, auth.HeaderTimestamp: {timestamp}, auth.HeaderNonce: {nonce},
		auth.HeaderBodyHash: {hash}, auth.HeaderSignature: {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}
}

func benchStore(b testing.TB) (*file.Store, *auth.Key) {
	b.Helper()
	backend, err := file.Open(b.TempDir(), file.Options{})
	if err != nil {
		b.Fatal(err)
	}
	if err := backend.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = backend.Close() })
	record := &store.Record{ID: benchID, Revision: "r1", Fields: store.Fields{Tenant: "t", Scopes: []string{"*"}}, CreatedAt: time.Now()}
	if _, err := backend.Put(context.Background(), record, store.PutOptions{}); err != nil {
		b.Fatal(err)
	}
	scopes, err := auth.ParseScopes(record.Scopes)
	if err != nil {
		b.Fatal(err)
	}
	return backend, &auth.Key{
		ID: benchID, Revision: "r1", Tenant: "t", Scopes: scopes,
		Secrets: []*auth.Secret{auth.NewSecret(1, benchSecret, time.Time{})},
	}
}

// accept does all of the gateway's own work for one request: headers, target,
// operation, judge, body hash, settle with its journal.
func accept(table *auth.Table, backend store.Backend, key *auth.Key, header http.Header) auth.Reason {
	credentials, refusal := auth.ParseCredentials(header)
	if refusal != nil {
		return refusal.Reason
	}
	target, refusal := auth.ParseTarget(benchTarget)
	if refusal != nil {
		return refusal.Reason
	}
	_, scope, _ := table.Match(http.MethodPost, target.Path)
	request := auth.Request{
		Method: http.MethodPost, Target: target.Raw, Credentials: credentials,
		Client: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Scope: scope,
	}
	now := time.Now()
	judgement := auth.Judge(&request, key, benchWindow, now)
	if !auth.BodyHashEqual(credentials.BodyHash, sha256.Sum256(benchBody)) {
		judgement.Failed |= auth.RuleBodyHash
	}
	verdict, err := backend.Settle(context.Background(), &store.Claim{
		KeyID: key.ID, Revision: key.Revision, NextRevision: "r2", SecretVersion: judgement.SecretVersion,
		Now: now, Timestamp: credentials.Unix, Window: benchWindow, Nonce: auth.NonceDigest(credentials.Nonce),
		Failed: judgement.Failed, LockAfter: 50,
	})
	if err != nil {
		return auth.StoreUnavailable
	}
	return verdict.Reason
}

// BenchmarkAccept measures judge and settle, with the journal, for a POST of 1
// KiB. For comparison it measures the bare SHA-256 and HMAC of the same bytes.
// The gateway may take at most twice that time, and 10 allocations.
func BenchmarkAccept(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			sum := sha256.Sum256(benchBody)
			mac := hmac.New(sha256.New, []byte(benchSecret))
			mac.Write(benchBody)
			mac.Sum(sum[:0])
		}
	})
	b.Run("gateway", func(b *testing.B) {
		table, err := auth.NewTable(nil)
		if err != nil {
			b.Fatal(err)
		}
		backend, key := benchStore(b)
		b.ReportAllocs()
		b.StopTimer()
		for done := 0; done < b.N; {
			batch := make([]benchRequest, min(b.N-done, 4096))
			for i := range batch {
				batch[i].signAnew(time.Now(), done+i)
			}
			b.StartTimer()
			for i := range batch {
				if reason := accept(table, backend, key, batch[i].header); reason != auth.Accepted {
					b.Fatal(reason)
				}
			}
			b.StopTimer()
			done += len(batch)
		}
	})
}
