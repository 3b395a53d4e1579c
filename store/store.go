// Package store defines the contract between the gateway and the backends that
// keep its state: the records of the keys, and for each key the nonces, the
// failure count and the levels of its rate limits.
//
// [Backend] is the contract. Every backend is a package of its own below this
// one and passes the suite in storetest. A backend holds state only. Limits,
// windows and thresholds belong to the configuration, and each [Claim] holds
// them. The master key never reaches a backend.
//
// Begin with [Backend], whose comment is the contract.
package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// A Backend keeps the state of the gateway. All its methods may be called at
// once from many goroutines, and by several gateways that share the same state.
//
// When the context ends, reading methods return its error. Settle is atomic: it
// happens as a whole or not at all. After an error of Settle the caller must
// not let the request through. It cannot know whether something was written.
type Backend interface {
	// Start takes the resources of the backend (locks, journals, connections)
	// and makes it ready to settle. It may be called again. An error means that
	// the gateway must not start: another process uses the directory, the
	// journal cannot be written, or the server is unfit. If a server only cannot
	// be reached, Start returns nil and Ready returns an error.
	Start(ctx context.Context) error

	// Ready returns nil when Settle can be expected to succeed, else an error
	// with the reason.
	Ready(ctx context.Context) error

	// Settle decides everything that only shared state can decide, in one
	// atomic step, in this order:
	//
	//  1. If the stored revision of the key is not Claim.Revision, or the key is
	//     gone: Verdict.Stale. Nothing is written.
	//  2. Rule 5: if the failure count has reached Claim.LockAfter: KeyLocked.
	//     The lock is written into the record with Claim.NextRevision, and the
	//     count is set to 0.
	//  3. Rules 6 and 7: if they are in Claim.Failed. Rule 7 also fails when
	//     Claim.Timestamp differs from Claim.Now by more than Claim.Window.
	//  4. Rule 8: if the nonce of this key is live.
	//  5. Rules 9, 10 and 12: if they are in Claim.Failed.
	//  6. If Claim.Timestamp is not after the replay floor: ReplayFloor, with
	//     Verdict.RetryAfter. Nothing else forbids the request, and nothing is
	//     written, charged or counted.
	//  7. All buckets of Claim.Charges are charged. If one of them lacks room,
	//     none is charged: RateLimited, unless Claim.LimitsDryRun.
	//  8. The nonce is recorded for auth.NonceLifetime, the count is set to 0,
	//     and the use of Claim.SecretVersion is recorded.
	//
	// The replay floor is the moment up to which the backend may have lost
	// nonces, plus Claim.ReplayFloorAhead. A request stamped up to it may be a
	// repetition that step 4 cannot see.
	//
	// A refusal by rules 6 to 10 raises the failure count by one if auth.Counts
	// returns true for it. With Claim.DryRun the count and the record do not
	// change: step 2 refuses without locking, and step 8 does not clear the
	// count. Nonces and charges are recorded as usual. When Settle returns, the
	// writes of step 8, the count and the lock survive the end of the process.
	//
	// Step 8 also notes Claim.From, unless Claim.DryRun. While the key was accepted
	// from another holder in the last BusyTicks, a holder adds at most auth.LockShare
	// to the count: further refusals have the same reason, are Verdict.Uncounted and
	// write nothing. What a holder has added is forgotten when the count is set to 0.
	// If it is more than MaxParts holders, all failures of the others count.
	Settle(ctx context.Context, c *Claim) (Verdict, error)

	// Look returns what Settle would answer now, and writes nothing: a Verdict
	// without States whose Reason is the first that Settle would find. The
	// answer may be outdated when the caller reads it.
	Look(ctx context.Context, c *Claim) (Verdict, error)

	// Levels returns the states of a key's buckets as they are at now, one per
	// charge and in their order. It writes and charges nothing. A bucket that no
	// request of the key has used, and each bucket of a key without a record, is
	// full. The times in the states are by the clock that Settle uses for limits.
	Levels(ctx context.Context, keyID string, charges []ratelimit.Charge, now time.Time) ([]ratelimit.State, error)

	// Get returns the record of a key as it is stored now, with its failure
	// count, or ErrNotFound, or a DamagedError.
	Get(ctx context.Context, id string) (*Record, error)

	// Put writes a record. If opt.Expect is empty, it creates the record and
	// returns ErrExists if there is one already. Otherwise it replaces the
	// record that has the revision opt.Expect, and returns ErrConflict if the
	// stored record has another revision or is missing. The new record must
	// have a new revision. The failure count stays, unless opt.ClearFailures is
	// set; that of a created record is 0. The next Settle on every gateway uses
	// the new record.
	Put(ctx context.Context, r *Record, opt PutOptions) (Durability, error)

	// Delete removes a key's record, failure count and buckets. It returns
	// ErrConflict if the record has another revision (an empty revision means
	// any), and ErrNotFound if there is no record. The nonces stay until they
	// die, so that a key that is imported again accepts no request twice.
	Delete(ctx context.Context, id, revision string) (Durability, error)

	// List returns up to limit records that follow the cursor (empty: from the
	// start), in a stable order. On one server, a record that exists during the
	// whole listing is listed exactly once. A record that cannot be read is named
	// in its place, and costs no other record: List fails only if the backend
	// cannot answer.
	List(ctx context.Context, cursor string, limit int) (Page, error)

	// Changes returns which keys Put and Delete have changed on any gateway since
	// the mark of the call before; empty: from now on. Get then returns the change
	// or a later one. An id may be returned again, or without a change. If changes
	// may be missing, there is a gap: only List returns them. A backend that one
	// process uses at a time returns none, and no gap.
	Changes(ctx context.Context, mark string) (Changes, error)

	// Meta returns a small named value, or ErrNotFound.
	Meta(ctx context.Context, name string) ([]byte, error)

	// PutMeta writes a small named value if the name has none. It returns the
	// value that is stored afterwards.
	PutMeta(ctx context.Context, name string, value []byte) ([]byte, error)

	// DeleteMeta removes a named value if it still is the given one. If it has
	// another value or is missing, DeleteMeta returns nil.
	DeleteMeta(ctx context.Context, name string, value []byte) error

	// Status describes the backend for an operator.
	Status(ctx context.Context) Status

	// Close releases all resources. Calls after it return ErrUnavailable.
	Close() error
}

// Changes are some of the changes of keys. Without IDs there are no more.
type Changes struct {
	IDs  []string
	Mark string // for the next call
	Gap  bool
}

// LocalBackend is an optional ability of a [Backend]. Local reports whether Get
// answers from memory, so that look-ups of invented ids need no limit.
type LocalBackend interface{ Local() bool }

// A Claim is everything that Settle needs to know of one judged request.
type Claim struct {
	KeyID         string
	From          netip.Prefix // auth.Holder of the client's address
	Revision      string       // of the record that was judged
	NextRevision  string       // fresh and random, for the record if this request locks it
	SecretVersion int          // of the secret that verified the signature; 0: none did

	Now       time.Time // the gateway's clock, read just before the call
	Timestamp int64     // X-Timestamp in Unix seconds; 0 when it is malformed
	Window    time.Duration
	// ReplayFloorAhead is added to the moment up to which nonces may have been
	// lost. Requests stamped up to the sum are refused with ReplayFloor.
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
	// the request. If Settle finds no reason any more, it refuses the request as
	// RateLimited and charges nothing.
	BodyDropped bool
}

// UntilAfter returns the time from Now to the first whole second after the
// moment, at least one second. The sender of a request under the replay floor
// must wait that long before it signs anew.
func (c *Claim) UntilAfter(moment time.Time) time.Duration {
	return max(time.Unix(moment.Unix()+1, 0).Sub(c.Now), time.Second)
}

// Late reports whether the claim fails rule 7 by its own reading of the clock.
func (c *Claim) Late() bool { return c.Timestamp == 0 || !auth.InWindow(c.Now, c.Timestamp, c.Window) }

// LockEnd returns when a lock that the claim causes ends; the zero time is never.
func (c *Claim) LockEnd() (at time.Time) {
	if c.LockDuration > 0 {
		at = c.Now.Add(c.LockDuration)
	}
	return at
}

// Origin returns From as a backend keeps it: the /64 of IPv6, or 1<<32 and the address
// of IPv4; 0 if it is not known.
func (c *Claim) Origin() uint64 {
	switch from := c.From.Addr(); {
	case from.Is4():
		b := from.As4()
		return 1<<32 | uint64(binary.BigEndian.Uint32(b[:]))
	case from.Is6():
		b := from.As16()
		return binary.BigEndian.Uint64(b[:])
	}
	return 0
}

// Tick returns when a backend notes that the claim was accepted: Now in units of ten
// seconds, so that it seldom writes. A key is busy for BusyTicks from then on.
func (c *Claim) Tick() int64 { return c.Now.Unix() / 10 }

const (
	// BusyTicks is ten minutes, see [Claim.Tick].
	BusyTicks = 60
	// MaxParts is of how many holders a backend knows what they have added to the
	// failure count of a key. Below a LockAfter of that there cannot be more.
	MaxParts = 50
)

// A Verdict is the answer of Settle. The zero value is an acceptance.
type Verdict struct {
	// Stale: the key was changed since it was judged; judge again.
	Stale bool
	// Reason of the refusal, one of rules 5 to 10, 12, ReplayFloor or
	// RateLimited.
	Reason auth.Reason
	// RetryAfter is set for ReplayFloor: a request that is signed this long
	// after Claim.Now is after the floor. At least one second.
	RetryAfter time.Duration
	// Failures is the failure count after this request.
	Failures int
	// Uncounted: the refusal would have raised the count, had its holder not added its
	// share already.
	Uncounted bool
	// Locked: this request wrote the lock into the record.
	Locked bool
	// States of the buckets after this request, one per charge. They are set
	// for an accepted and for a rate limited request.
	States [ratelimit.MaxCharges]ratelimit.State
	// OverLimit: a bucket lacked room, also when LimitsDryRun let it pass.
	OverLimit bool
}

// PutOptions are the condition and the effects of [Backend.Put].
type PutOptions struct {
	Expect        string // the revision that is replaced; empty: create
	ClearFailures bool   // set the failure count back to 0
	// Restore puts back a record that was lost or cannot be read. It replaces what is
	// stored under the id as a whole, whatever that is, if it has the revision Expect
	// (empty: it has none, or there is nothing). If the backend then no longer knows
	// all nonces of the key, the replay floor of this key rises to now.
	Restore bool
}

// Durability reports how safe a change is when the call returns.
type Durability struct {
	// Replicated is nil where the backend has no replicas, else whether a
	// replica has acknowledged the change.
	Replicated *bool
}

// Status describes a backend for an operator.
type Status struct {
	Backend string  `json:"backend"`           // "file" or "redis"
	Place   string  `json:"place"`             // directory or addresses, without credentials
	Ready   bool    `json:"ready"`             //
	Problem string  `json:"problem,omitempty"` // why it is not ready
	Details Details `json:"details,omitzero"`
}

// Details are what a backend knows of itself. A field of the other backend is zero.
type Details struct {
	Degraded          []string  `json:"degraded,omitzero"`             // troubles of a ready backend
	Gateways          []Gateway `json:"gateways,omitzero"`             // redis: those that lately wrote their policy
	JournalBytes      int64     `json:"journal_bytes,omitempty"`       // file
	JournalSegments   int       `json:"journal_segments,omitempty"`    // file
	Keys              *int      `json:"keys,omitempty"`                // file
	MaxNonces         int64     `json:"max_nonces,omitempty"`          // file
	NoRoomForChanges  string    `json:"no_room_for_changes,omitempty"` // file: why
	Nonces            *int64    `json:"nonces,omitempty"`              // file: live ones
	Policy            string    `json:"policy,omitempty"`              // redis: hash of this gateway's
	PolicyDifferences int       `json:"policy_differences,omitempty"`  // redis: between the gateways
	ReplayFloor       time.Time `json:"replay_floor,omitzero"`         // the latest of all
	Servers           []Server  `json:"servers,omitzero"`              // redis: the masters
	Topology          string    `json:"topology,omitempty"`            // redis
	Warnings          []string  `json:"warnings,omitzero"`             // redis: what an operator should change
}

// A Gateway is one of those that share a backend.
type Gateway struct {
	Name   string    `json:"name"`
	Policy string    `json:"policy"` // its hash
	Seen   time.Time `json:"seen"`
	This   bool      `json:"this"` // the one that reports
}

// A Server is a server of a backend.
type Server struct {
	Address    string `json:"address"`
	MaxMemory  int64  `json:"max_memory"` // bytes; 0: no limit
	Replicas   int64  `json:"replicas"`
	UsedMemory int64  `json:"used_memory"`
	Version    string `json:"version"`
}

// A Finding is the result of one check of a server, for whoever looks before a start.
type Finding struct {
	Server  string // its address
	Check   string // such as eviction
	Problem string // what is wrong and what to do; empty: nothing
	Unasked bool   // the server does not let the user ask; Problem is what the user needs
}

// Errors that every backend returns, possibly wrapped. Any other error means
// that the backend could not answer: the request is refused with 503.
var (
	ErrNotFound    = errors.New("no such key")
	ErrConflict    = errors.New("the key was changed by somebody else at the same time")
	ErrExists      = errors.New("a key of this id exists already")
	ErrUnavailable = errors.New("the store cannot answer")
	// ErrFull means that a cap on live nonces is reached. A backend never drops
	// a live nonce to make room. ErrFull wraps ErrUnavailable.
	ErrFull = fmt.Errorf("%w: it holds as many live nonces as it may", ErrUnavailable)
)

// A DamagedError means that the record of a key cannot be read, because something
// other than a gateway has written it. It is an [ErrUnavailable].
type DamagedError struct {
	ID    string // of the key
	Field string // one of [DamagedFields]
	// Revision of the record, with which it can be deleted; empty: it has none.
	Revision string
	Cause    error // without anything that the record holds
}

// The values of [DamagedError.Field].
const (
	DamagedDocument = "document" // the whole, or what no other value names
	DamagedID       = "id"       // it is the record of another key
	DamagedFailures = "failures"
	DamagedLock     = "lock"
	DamagedLastUsed = "last_used"
)

// DamagedFields returns the closed set of [DamagedError.Field].
func DamagedFields() []string {
	return []string{DamagedDocument, DamagedID, DamagedFailures, DamagedLock, DamagedLastUsed}
}

// Error returns the key, the field and the cause.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: the record of key %q is damaged: %s: %v", ErrUnavailable, e.ID, e.Field, e.Cause)
}

// Unwrap returns [ErrUnavailable].
func (e *DamagedError) Unwrap() error { return ErrUnavailable }
