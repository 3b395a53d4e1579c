package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// The histories of one key, as its clients and its operators see them. Each
// request or change must take effect at one moment between its beginning and its
// end, also while servers and networks fail, as long as nothing is lost.
const (
	operations = 500 // of one history
	clients    = 16
	nonces     = 120 // that the requests use, again and again
	quota      = 90  // a month, so that no token comes back
	lockAfter  = 3
)

// What clients and operators do.
const (
	sends   = "send"   // a correct request
	forges  = "forge"  // one with a wrong signature
	unlocks = "unlock" // the rest are changes of the key
	disable = "disable"
	enable  = "enable"
)

type operation struct {
	kind  string
	nonce int // of a correct request
}

type outcome struct {
	what      string
	remaining int // of an accepted request
}

// The outcomes.
const (
	accepted  = "accepted"
	replayed  = "replayed"
	limited   = "limited"
	locked    = "locked"
	disabled  = "disabled"
	mismatch  = "mismatch"
	done      = "done"
	noEffect  = "no effect" // refused under the replay floor, or in conflict with another change
	unknown   = "unknown"   // it took effect, or it did not, or it will later
	strangest = "another answer: "
)

// A keyState is what the store remembers of a key.
type keyState struct {
	seen             [2]uint64 // nonces
	spent, failures  int
	locked, disabled bool
}

// The state of the model is the set of those in which the key may be.
type keyStates map[keyState]struct{}

var keyModel = porcupine.Model{
	Init: func() any { return keyStates{{}: {}} },
	Step: func(state, input, output any) (bool, any) {
		after := make(keyStates)
		for s := range state.(keyStates) {
			s.follow(input.(operation), output.(outcome), after)
		}
		return len(after) > 0, after
	},
	Equal:             func(a, b any) bool { return maps.Equal(a.(keyStates), b.(keyStates)) },
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// follow adds the states in which the key may be after an operation had the
// outcome.
func (s keyState) follow(op operation, got outcome, after keyStates) {
	want, next := s.step(op)
	told := s.locked && !s.disabled && want.what == disabled && got.what == locked // a request that finds the lock may get its message
	if got.what == noEffect || got.what == unknown {
		after[s] = struct{}{}
	}
	if got.what == unknown || want == got || told {
		after[next] = struct{}{}
	}
}

// step is the published behaviour of locks, nonces and limits, and that of the
// key API for changes.
func (s keyState) step(op operation) (outcome, keyState) {
	switch op.kind {
	case unlocks:
		s.locked, s.failures = false, 0
		return outcome{what: done}, s
	case disable, enable:
		s.disabled = op.kind == disable
		return outcome{what: done}, s
	}
	word, bit := op.nonce/64, uint64(1)<<(op.nonce%64)
	switch {
	case s.disabled, s.locked:
		return outcome{what: disabled}, s
	case s.failures == lockAfter:
		s.locked = true
		return outcome{what: locked}, s
	case op.kind == forges:
		s.failures++
		return outcome{what: mismatch}, s
	case s.seen[word]&bit != 0:
		return outcome{what: replayed}, s
	case s.spent == quota:
		return outcome{what: limited}, s
	}
	s.seen[word] |= bit
	s.spent++
	s.failures = 0
	return outcome{what: accepted, remaining: quota - s.spent}, s
}

// A history is what happened to one key.
type history struct {
	b     *bench
	key   harness.Credentials
	begun time.Time
	near  <-chan struct{} // closed before the fault: most clients wait until it is over
	over  <-chan struct{} // closed when nothing of the time of the fault can take effect any more
	gate  sync.RWMutex    // held for reading during each operation
	quiet atomic.Int32    // clients that wait, or have done their share

	mu  sync.Mutex
	ops []porcupine.Operation
}

// never is the end of an operation that may take effect at any later time.
const never = time.Hour

// record lets the clients work until the history is complete.
func (h *history) record(random func(client int) *rand.Rand) {
	var all sync.WaitGroup
	for client := range clients {
		r := random(client)
		g := h.b.gateways[client%len(h.b.gateways)]
		share := operations / clients
		if client < operations%clients {
			share++
		}
		all.Go(func() {
			var w *harness.Wire
			pause := time.NewTicker(time.Duration(10+r.IntN(20)) * time.Millisecond)
			defer pause.Stop()
			for range share {
				<-pause.C
				if h.wait(client) && w != nil { // the connection may be broken
					_ = w.Close()
					w = nil
				}
				if w = h.once(client, g, w, draw(r, client)); w == nil {
					h.stopDuringFault() // otherwise many operations would have an unknown outcome
				}
			}
			h.quiet.Add(1)
			if w != nil {
				_ = w.Close()
			}
		})
	}
	all.Wait()
}

// wait lets most clients wait while the fault lasts, and reports whether this one
// has. Each operation whose outcome is unknown doubles the states in which the
// key may be.
func (h *history) wait(client int) bool {
	select {
	case <-h.over:
		return false
	default:
	}
	select {
	case <-h.near:
	default:
		return false
	}
	if client < 6 {
		return false
	}
	h.quiet.Add(1)
	<-h.over
	return true
}

// stopDuringFault waits until the fault is over, if it is near. On a busy machine
// outcomes are unknown before it too.
func (h *history) stopDuringFault() {
	select {
	case <-h.near:
		h.quiet.Add(1)
		<-h.over
	default:
	}
}

// once does one operation and notes it. It returns the connection for the next
// one, if the outcome is known.
func (h *history) once(client int, g *harness.Gateway, w *harness.Wire, op operation) *harness.Wire {
	h.gate.RLock()
	defer h.gate.RUnlock()
	if w == nil {
		w, _ = g.Dial("")
	}
	call := time.Since(h.begun)
	got := outcome{what: unknown}
	if w != nil {
		got, w = h.perform(g, w, op)
	}
	end := time.Since(h.begun)
	if got.what == unknown {
		end = never
		if w != nil {
			_ = w.Close()
		}
		w = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: op, Output: got, Call: int64(call), Return: int64(end)})
	return w
}

// settle waits until no client has an operation on its way. The returned
// function notes that operations with an unknown outcome take effect by now or
// never, and lets the clients go on.
func (h *history) settle() (goOn func()) {
	h.gate.Lock()
	return func() {
		now := int64(time.Since(h.begun))
		for i := range h.ops {
			h.ops[i].Return = min(h.ops[i].Return, now)
		}
		h.gate.Unlock()
	}
}

// draw chooses what a client does next. Few of them forge and few change the key:
// the count of failures cannot be seen, so the more of them overlap with accepted
// requests, the more orders there are to try.
func draw(r *rand.Rand, client int) operation {
	changes := []string{disable, enable, enable, unlocks, unlocks}
	switch kind := client % 8; {
	case kind == 0 && r.IntN(2) == 0:
		return operation{kind: forges}
	case kind == 1 && r.IntN(2) == 0:
		return operation{kind: changes[r.IntN(len(changes))]}
	default:
		return operation{kind: sends, nonce: r.IntN(nonces)}
	}
}

// stampedAhead is how far ahead of the clock the requests of a history are
// stamped: further than any replay floor reaches, since nothing is lost.
const stampedAhead = 12 * time.Second

// perform does one operation, and returns the connection that can be used for
// the next one.
func (h *history) perform(g *harness.Gateway, w *harness.Wire, op operation) (outcome, *harness.Wire) {
	if op.kind != sends && op.kind != forges {
		status, answer, err := g.TryAdmin(http.MethodPost, "/card-gateway/keys/"+h.key.ID+"/"+op.kind, "", "")
		switch {
		case err != nil || status >= 500:
			return outcome{what: unknown}, w
		case status == http.StatusConflict:
			return outcome{what: noEffect}, w
		case status != http.StatusOK:
			return outcome{what: strangest + answer}, w
		}
		return outcome{what: done}, w
	}
	r := h.key.RequestAt(time.Now().Add(stampedAhead), http.MethodGet, "/api/v1/cards/c1", "")
	if op.kind == forges {
		r.Forge()
	} else {
		r.Set("X-Nonce", fmt.Sprintf("nonce-number-%06d", op.nonce)).Sign(h.key.Secret)
	}
	answer, w := exchange(w, &sent{text: r.Raw(), method: r.Method})
	if answer == nil {
		return outcome{what: unknown}, w
	}
	return judged(answer), w
}

// judged reads the outcome of a request from its answer.
func judged(answer *harness.Response) outcome {
	switch m := message(answer); {
	case answer.Status == http.StatusOK:
		remaining, _ := strconv.Atoi(answer.Header.Get("X-Ratelimit-Remaining"))
		return outcome{what: accepted, remaining: remaining}
	case answer.Status == http.StatusTooManyRequests:
		return outcome{what: limited}
	case m == harness.NonceLost:
		return outcome{what: noEffect}
	case answer.Status >= 500:
		return outcome{what: unknown}
	case m == harness.Replayed:
		return outcome{what: replayed}
	case m == harness.KeyLocked:
		return outcome{what: locked}
	case m == harness.KeyDisabled:
		return outcome{what: disabled}
	case m == harness.WrongSignature:
		return outcome{what: mismatch}
	default:
		return outcome{what: strangest + m}
	}
}

// testHistories records histories, some at once, while faults strike, and checks
// that each is linear.
func testHistories(t *testing.T, top topology, faults []fault) {
	if !full {
		t.Parallel()
		faults = faults[:1]
	}
	b := &bench{t: t, issuer: harness.StartUpstream(t), limits: harness.WithLimits, global: fmt.Sprintf("lock_after %d", lockAfter), block: patient}
	top.start(b)
	eventually(t, "the first requests are accepted", b.accepts)
	r := &histories{topology: top.name}
	for round := 0; r.checked < pick(100, 1) && r.undecided < pick(25, 1); round++ {
		f := faults[round%len(faults)]
		for _, h := range b.histories(&f, pick(10, 1), uint64(round)) {
			r.check(t, h, f.name)
		}
		t.Logf("%d times %q: %+v", round/len(faults)+1, f.name, *r)
	}
	if full && r.checked < 100 {
		t.Errorf("%d histories were not decided in time", r.undecided)
	}
	t.Logf("%+v", *r)
	results.mu.Lock()
	defer results.mu.Unlock()
	results.histories = append(results.histories, r)
}

// histories counts those of one topology. A history is undecided if it takes
// too long to check.
type histories struct {
	topology                    string
	checked, undecided, unknown int // of operations: with an unknown outcome
}

// check checks one history.
func (r *histories) check(t *testing.T, h *history, during string) {
	t.Helper()
	for _, op := range h.ops {
		if op.Output.(outcome).what == unknown {
			r.unknown++
		}
	}
	switch porcupine.CheckOperationsTimeout(keyModel, h.ops, time.Duration(pick(20, 15))*time.Second) {
	case porcupine.Illegal:
		t.Fatalf("a history is not linear, with the fault %q:\n%s", during, described(h.ops))
	case porcupine.Unknown:
		r.undecided++
	default:
		r.checked++
	}
}

// brief are faults of histories, which lose nothing. They last a little longer
// than a gateway waits for Redis here: it is patient, so that the faults alone are
// why the outcome of an operation is unknown.
func brief(faults ...fault) []fault {
	for i := range faults {
		if faults[i].lasts == 0 {
			faults[i].lasts = 1500 * time.Millisecond
		}
	}
	return faults
}

// ofNetwork are the brief faults between gateways and a server.
func ofNetwork() []fault {
	return brief(
		fault{name: "stopped", strike: stopped},
		fault{name: "cut off in both directions", strike: onLinks(harness.LinkFault{Hold: true}, bothWays)},
		fault{name: "commands held, then delivered late", strike: onLinks(harness.LinkFault{Hold: true}, (*bench).toServer)},
		fault{name: "replies held", strike: onLinks(harness.LinkFault{Hold: true}, (*bench).fromServer)},
		fault{name: "connections cut in mid-reply", strike: onLinks(harness.LinkFault{Cut: true}, (*bench).fromServer)},
		fault{name: "replies of other calls", strike: crossed},
	)
}

func TestLinearEmbedded(t *testing.T) {
	testHistories(t, embedded, brief(
		fault{name: "killed and started again", strike: gatewayKilled},
		fault{name: "reloaded", strike: reloaded},
	))
}

func TestLinearSingle(t *testing.T) {
	testHistories(t, single, append(ofNetwork(),
		fault{name: "killed and started again", strike: killed},
		fault{name: "a gateway killed and started again", strike: gatewayKilled},
	))
}

func TestLinearSentinel(t *testing.T) {
	needsAll(t)
	testHistories(t, sentinel, append(ofNetwork(), brief(
		fault{name: "master not heard by the other servers", strike: masterNotHeard},
	)...))
}

func TestLinearCluster(t *testing.T) {
	needsAll(t)
	testHistories(t, cluster, append(ofNetwork(), brief(
		fault{name: "master not heard by the other servers", strike: masterNotHeard},
	)...))
}

// needsAll skips what is not in the short mix.
func needsAll(t *testing.T) {
	t.Helper()
	if !full {
		t.Skip("make faults runs it")
	}
}

// histories records a number of histories, each of a new key, while the fault
// strikes.
func (b *bench) histories(f *fault, number int, seed uint64) []*history {
	near, over := make(chan struct{}), make(chan struct{})
	all := make([]*history, number)
	for i := range all {
		all[i] = &history{b: b, key: b.newKey(), begun: time.Now(), near: near, over: over}
		b.setLimit(all[i].key)
	}
	var recording sync.WaitGroup
	for i, h := range all {
		recording.Go(func() {
			h.record(func(client int) *rand.Rand { return rand.New(rand.NewPCG(seed*1000+uint64(i), uint64(client))) })
		})
	}
	eventually(b.t, "the histories have begun", func() bool {
		h := all[len(all)-1]
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.ops) > operations/4
	})
	close(near)
	for _, h := range all {
		eventually(b.t, "most clients wait", func() bool { return h.quiet.Load() >= clients-6 })
	}
	end := f.strike(b)
	time.Sleep(f.lasts) // the fault itself
	if end != nil {
		end()
	}
	eventually(b.t, "requests are accepted again", b.acceptsAhead)
	b.settle(all)
	close(over)
	recording.Wait()
	if f.restore != nil {
		f.restore(b)
		eventually(b.t, "requests are accepted again", b.acceptsAhead)
	}
	return all
}

// settle lets what is on its way come to its end, so that no operation of the time
// of the fault takes effect later.
func (b *bench) settle(all []*history) {
	b.t.Helper()
	var goOn []func()
	for _, h := range all {
		goOn = append(goOn, h.settle())
	}
	if b.servers != nil {
		for _, name := range gatewayNames {
			b.servers.Drain(harness.Route{From: name})
		}
		for _, r := range b.servers.All { // what has arrived is carried out first
			r.Do("ping")
			r.Do("ping")
		}
	}
	eventually(b.t, "requests are accepted again", b.acceptsAhead)
	for _, f := range goOn {
		f()
	}
}

// setLimit gives a key the limit of the histories.
func (b *bench) setLimit(c harness.Credentials) {
	eventually(b.t, "the key is changed", func() bool {
		status, _ := b.gateways[0].Admin(http.MethodPatch, "/card-gateway/keys/"+c.ID, "application/json", fmt.Sprintf(`{"limits":{"get_card":"%d/31d"}}`, quota))
		return status == http.StatusOK
	})
}

// acceptsAhead reports whether every gateway accepts requests that are stamped as
// those of histories.
func (b *bench) acceptsAhead() bool {
	for _, g := range b.gateways {
		for _, key := range b.keys {
			r := key.RequestAt(time.Now().Add(stampedAhead), http.MethodPost, "/api/v1/orders", "{}")
			if answer, err := g.Try(r); err != nil || answer.Status != http.StatusOK {
				return false
			}
		}
	}
	return true
}

// described returns a history as text for a person.
func described(ops []porcupine.Operation) string {
	text := ""
	for _, op := range ops {
		end := time.Duration(op.Return).String()
		if op.Return == int64(never) {
			end = "…"
		}
		text += fmt.Sprintf("client %2d %v to %s: %+v: %+v\n", op.ClientId, time.Duration(op.Call), end, op.Input, op.Output)
	}
	return text
}
