package redis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// An operation on one key. Revisions and nonces are small numbers.
type operation struct {
	kind     string // settle, fail, change
	revision int    // that the claim was judged by, or that the change expects
	next     int    // of a change
	nonce    int
	from     int // the holder
}

type answer struct {
	outcome   string
	remaining int64
	failures  int
	uncounted bool
}

// A keyState is the state that the operations change.
type keyState struct {
	revision int
	seen     uint64 // nonces
	spent    int64
	failures int
	parts    [linearHolders]int  // of the failures
	accepted [linearHolders]bool // from which holders
}

const (
	linearHolders = 3
	linearLock    = 8 // failures
	lockedNow     = -1
)

const quota = 12 // per month, so that no token comes back during the test

// unknown is the outcome of a call that failed: it has happened, it has not, or
// it will happen later.
const unknown = "unknown"

var keyModel = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{keyState{}} },
	Step: func(state, input, output any) []any {
		want, next := state.(keyState).step(input.(operation))
		switch {
		case output.(answer).outcome == unknown:
			return []any{state, next}
		case want == output.(answer):
			return []any{next}
		default:
			return nil
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}).ToModel()

// step is the contract of the store for these operations.
func (s keyState) step(op operation) (answer, keyState) {
	if op.kind == "change" {
		if op.revision != s.revision {
			return answer{outcome: "conflict"}, s
		}
		s.revision = op.next
		return answer{outcome: "ok"}, s
	}
	switch {
	case op.revision != s.revision:
		return answer{outcome: "stale"}, s
	case s.failures == linearLock:
		s.revision, s.failures = lockedNow, 0
		return answer{outcome: auth.KeyLocked.String()}, s
	case s.seen&(1<<op.nonce) != 0 && op.kind == "fail":
		return s.fail(op, auth.ReplayedNonce)
	case s.seen&(1<<op.nonce) != 0:
		return answer{outcome: auth.ReplayedNonce.String(), failures: s.failures}, s
	case op.kind == "fail":
		return s.fail(op, auth.SignatureMismatch)
	case s.spent == quota:
		return answer{outcome: auth.RateLimited.String(), failures: s.failures}, s
	}
	s.seen |= 1 << op.nonce
	s.spent++
	s.failures, s.parts, s.accepted[op.from] = 0, [linearHolders]int{}, true
	return answer{outcome: auth.Accepted.String(), remaining: quota - s.spent}, s
}

// fail counts the failure of a holder, which adds half of what locks the key while the
// key is used by another.
func (s keyState) fail(op operation, reason auth.Reason) (answer, keyState) {
	others := s.accepted
	others[op.from] = false
	busy := others != [linearHolders]bool{}
	uncounted := busy && s.parts[op.from] == linearLock/2
	if !uncounted {
		s.failures++
	}
	if busy && !uncounted {
		s.parts[op.from]++
	}
	return answer{outcome: reason.String(), failures: s.failures, uncounted: uncounted}, s
}

// Concurrent histories of three gateways are linearizable: each call takes
// effect at one moment between its beginning and its end.
func TestLinearizable(t *testing.T) {
	opt := single(t)
	gateways := []*Store{open(t, opt), open(t, opt), open(t, opt)}
	for round := range 20 {
		r := newRecord()
		r.Revision = "0"
		put(t, gateways[0], r)
		history := record(t, gateways, r, uint64(round))
		if got := porcupine.CheckOperationsTimeout(keyModel, history, 20*time.Second); got != porcupine.Ok {
			t.Fatalf("round %d: %v:\n%v", round, got, history)
		}
	}
}

// record makes six clients work on one key and returns their operations.
func record(t *testing.T, gateways []*Store, r *store.Record, seed uint64) []porcupine.Operation {
	var mu sync.Mutex
	var history []porcupine.Operation
	revision := 0 // the newest that any client knows
	begin := time.Now()
	var clients sync.WaitGroup
	for client := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		clients.Go(func() {
			for i := range 12 {
				mu.Lock()
				op := operation{kind: "settle", revision: revision, nonce: random.IntN(24), from: random.IntN(client%2 + 1)}
				mu.Unlock()
				switch random.IntN(8) {
				case 0:
					op.kind, op.next = "change", 1+client*100+i
				case 1, 2, 3, 4:
					op.kind, op.from = "fail", random.IntN(linearHolders)
				}
				call := time.Since(begin)
				got := perform(t, gateways[client%len(gateways)], r, op)
				end := time.Since(begin)
				if got.outcome == unknown {
					end = time.Hour
				}
				mu.Lock()
				if op.kind == "change" && got.outcome == "ok" {
					revision = op.next
				}
				history = append(history, porcupine.Operation{ClientId: client, Input: op, Call: int64(call), Output: got, Return: int64(end)})
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return history
}

func perform(t *testing.T, s *Store, r *store.Record, op operation) answer {
	if op.kind == "change" {
		next := r.Clone()
		next.Revision = fmt.Sprint(op.next)
		switch _, err := s.Put(ctx, next, store.PutOptions{Expect: fmt.Sprint(op.revision)}); {
		case errors.Is(err, store.ErrConflict):
			return answer{outcome: "conflict"}
		case err != nil:
			return answer{outcome: unknown}
		}
		return answer{outcome: "ok"}
	}
	c := charge(t, newClaim(r), "issue_card", fmt.Sprintf("%d/31d", quota))
	c.Revision, c.LockAfter = fmt.Sprint(op.revision), linearLock
	c.From = auth.Holder(netip.AddrFrom4([4]byte{192, 0, 2, byte(op.from)}))
	c.Nonce = [16]byte{byte(op.nonce)}
	if op.kind == "fail" {
		c.Failed = auth.RuleSignature
	}
	v, err := s.Settle(ctx, c)
	switch {
	case err != nil:
		return answer{outcome: unknown}
	case v.Stale:
		return answer{outcome: "stale"}
	}
	return answer{outcome: v.Reason.String(), remaining: v.States[0].Remaining, failures: v.Failures, uncounted: v.Uncounted}
}
