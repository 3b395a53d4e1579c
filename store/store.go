// Package store is the contract between the gateway and what remembers its
// state: the records of the keys, and per key the nonces, the failure count
// and the levels of its rate limits.
//
// [Backend] is the contract. Every backend is a package of its own below this
// one and passes the suite in storetest. A backend holds state only. Limits,
// windows and thresholds belong to the configuration and travel in the
// [Claim]. The master key never reaches a backend.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// Errors that every backend returns, possibly wrapped. Any other error means
// that the backend could not answer: the request is refused with 503.
var (
	ErrNotFound    = errors.New("no such key")
	ErrConflict    = errors.New("the key was changed by somebody else at the same time")
	ErrExists      = errors.New("a key of this id exists already")
	ErrUnavailable = errors.New("the store cannot answer")
	// ErrFull means that a cap on live nonces is reached. Nothing is ever
	// evicted to make room. It is an ErrUnavailable.
	ErrFull = fmt.Errorf("%w: it holds as many live nonces as it may", ErrUnavailable)
)

// A Backend remembers. All its methods may be called at once from many
// goroutines, and by several gateways that share the same state.
//
// A context that ends makes reading methods return its error. Settle is never
// cut in two: it either happened or it did not, and an error says that the
// caller must not let the request through, not that nothing was written.
type Backend interface {
	// Start takes what the backend holds alone (locks, journals, connections)
	// and makes it ready to settle. It is idempotent. An error means that the
	// gateway must not start: the directory is used by another process, the
	// journal cannot be written, the server is unfit. A server that is merely
	// out of reach is no error; Ready tells.
	Start(ctx context.Context) error

	// Ready returns nil when Settle can be expected to succeed, else why not.
	Ready(ctx context.Context) error

	// Settle decides everything that only shared state can decide, in one
	// atomic step, in this order:
	//
	//  1. the stored revision of the key is Claim.Revision, else Verdict.Stale
	//     (also when the key is gone) and nothing is written;
	//  2. rule 5: the failure count has reached Claim.LockAfter: KeyLocked, and
	//     the lock is written into the record with Claim.NextRevision and the
	//     count set back to 0;
	//  3. rules 6 and 7 as Claim.Failed says; rule 7 also fails when
	//     Claim.Timestamp is outside Claim.Window of Claim.Now;
	//  4. rule 8: the nonce of this key is live;
	//  5. rules 9, 10 and 12 as Claim.Failed says;
	//  6. Claim.Timestamp is after the replay floor, else ReplayFloor with
	//     Verdict.RetryAfter: nothing but the floor forbids the request, and
	//     nothing is written, charged or counted;
	//  7. all buckets of Claim.Charges are charged, or, when one of them
	//     lacks room, none: RateLimited, unless Claim.LimitsDryRun;
	//  8. the nonce is recorded for auth.NonceLifetime, the count set to 0 and
	//     Claim.SecretVersion noted as used.
	//
	// The replay floor is the moment up to which the backend may have lost
	// nonces, plus Claim.ReplayFloorAhead. A request stamped up to it may be a
	// repetition that step 4 cannot see.
	//
	// A refusal by rules 6 to 10 for which auth.Counts holds raises the
	// failure count by one. Claim.DryRun leaves the count and the record alone
	// (step 2 refuses without locking, step 8 does not clear the count), and
	// records nonces and charges as usual. What step 8 writes, what counts and
	// what locks survives the end of the process before Settle returns.
	Settle(ctx context.Context, c *Claim) (Verdict, error)

	// Look returns what Settle would answer now, and writes nothing: a Verdict
	// without States whose Reason is the first that Settle would find. What it
	// returns may be outdated before it arrives.
	Look(ctx context.Context, c *Claim) (Verdict, error)

	// Get returns the record of a key as it is stored now, with its failure
	// count. ErrNotFound when there is none.
	Get(ctx context.Context, id string) (*Record, error)

	// Put writes a record if the stored one still has the revision opt.Expect
	// (empty: there must be none, else ErrExists), else ErrConflict, also when
	// there is none. The record must carry a new revision. The failure count
	// stays, unless opt says otherwise; that of a new record is 0. A changed
	// record holds for the very
	// next Settle on every gateway. Durability says how safe the change is.
	Put(ctx context.Context, r *Record, opt PutOptions) (Durability, error)

	// Delete forgets a key's record, failure count and buckets, if it still
	// has the revision (empty: whatever it has), else ErrConflict, or
	// ErrNotFound when there is none. Its nonces stay until they die, so that
	// a key that is imported again accepts no request twice.
	Delete(ctx context.Context, id, revision string) (Durability, error)

	// List returns up to limit records in a stable order that follow the
	// cursor (empty: from the start), and the cursor of the next page, empty
	// at the end. A record that exists during the whole listing is listed
	// exactly once on one server.
	List(ctx context.Context, cursor string, limit int) ([]*Record, string, error)

	// Meta returns a small named value, or ErrNotFound.
	Meta(ctx context.Context, name string) ([]byte, error)

	// PutMeta writes a small named value if there is none of that name, and
	// returns the value that is stored then.
	PutMeta(ctx context.Context, name string, value []byte) ([]byte, error)

	// DeleteMeta removes a named value if it still is the given one. That it
	// is another or gone already is no error.
	DeleteMeta(ctx context.Context, name string, value []byte) error

	// Status describes the backend for an operator.
	Status(ctx context.Context) Status

	// Close gives everything back. Calls after it return ErrUnavailable.
	Close() error
}

// LocalBackend is an optional ability of a [Backend]: Local reports whether
// Get answers from memory, so that look-ups of invented ids need no bound.
type LocalBackend interface{ Local() bool }

// A Claim is everything that Settle needs to know of one judged request.
type Claim struct {
	KeyID         string
	Revision      string // of the record that was judged
	NextRevision  string // fresh and random, for the record if this request locks it
	SecretVersion int    // of the secret that verified the signature; 0 for none

	Now       time.Time // the gateway's clock, read just before the call
	Timestamp int64     // X-Timestamp in Unix seconds; 0 when it is malformed
	Window    time.Duration
	// ReplayFloorAhead is added to the moment up to which nonces may have been
	// lost: requests stamped up to that sum are refused with ReplayFloor.
	ReplayFloorAhead time.Duration
	Nonce            [16]byte // auth.NonceDigest of X-Nonce

	Failed auth.Rules // of rules 6, 7, 9, 10 and 12

	LockAfter    int           // consecutive failures
	LockDuration time.Duration // 0: until an operator unlocks
	LockCounts   auth.Rules    // further rules that count: 6, 7, 8
	DryRun       bool          // count and lock nothing

	Charges      []ratelimit.Charge // at most ratelimit.MaxCharges
	LimitsDryRun bool               // decide, but refuse nothing
	// BodyDropped: the body was not kept, because Look found a reason to refuse
	// the request. Should nothing else forbid it any more, it is refused as
	// RateLimited, without charging anything.
	BodyDropped bool
}

// UntilAfter returns how long after Now the first whole second begins that is
// later than the moment, at least one second: that long the sender of a
// request under the replay floor has to wait before it signs anew.
func (c *Claim) UntilAfter(moment time.Time) time.Duration {
	return max(time.Unix(moment.Unix()+1, 0).Sub(c.Now), time.Second)
}

// A Verdict is the answer of Settle. The zero value is an acceptance.
type Verdict struct {
	// Stale: the key was changed since it was judged; judge again.
	Stale bool
	// Reason of the refusal, one of rules 5 to 10, 12, ReplayFloor or
	// RateLimited.
	Reason auth.Reason
	// RetryAfter is set for ReplayFloor: how long after Claim.Now a request
	// that is signed then is after the floor. At least one second.
	RetryAfter time.Duration
	// Failures is the failure count after this request.
	Failures int
	// Locked: this very request wrote the lock into the record.
	Locked bool
	// States of the buckets after this request, one per charge. They are set
	// for an accepted and for a rate limited request.
	States [ratelimit.MaxCharges]ratelimit.State
	// OverLimit: a bucket lacked room, also when LimitsDryRun let it pass.
	OverLimit bool
}

// PutOptions say on what condition and with what effect a record is written.
type PutOptions struct {
	Expect        string // the revision that is replaced; empty: create
	ClearFailures bool   // set the failure count back to 0
}

// Durability says how far a change has come when the call returns.
type Durability struct {
	// Replicated is nil where the backend has no replicas, else whether a
	// replica has acknowledged the change.
	Replicated *bool
}

// Status describes a backend for an operator.
type Status struct {
	Backend string         `json:"backend"`           // "file" or "redis"
	Place   string         `json:"place"`             // directory or addresses, without credentials
	Ready   bool           `json:"ready"`             //
	Problem string         `json:"problem,omitempty"` // why it is not ready
	Details map[string]any `json:"details,omitempty"`
}
