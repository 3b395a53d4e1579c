package file

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// problems collects the problems that a store reports to the operator.
type problems struct {
	mu   sync.Mutex
	told []string
}

func (p *problems) add(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, err.Error())
}

func (p *problems) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.told, "\n")
}

// A bench is a store with its own clock and one key.
type bench struct {
	*Store
	t        testing.TB
	clock    *testClock
	problems *problems
	opt      Options
	record   *store.Record
}

func newBench(t testing.TB, opt Options) *bench {
	t.Helper()
	b := &bench{t: t, clock: newTestClock(), problems: &problems{}}
	opt.Clock, opt.OnProblem = b.clock.now, b.problems.add
	if opt.boot == "" {
		opt.boot = "one"
	}
	if opt.RuntimeDir == "" {
		opt.RuntimeDir = t.TempDir()
	}
	b.opt = opt
	b.Store = start(t, filepath.Join(t.TempDir(), "store"), opt)
	b.record = b.newKey()
	return b
}

func (b *bench) newKey() *store.Record {
	b.t.Helper()
	r := &store.Record{
		ID: "ck_test_" + rand.Text(), Revision: rand.Text(), Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}},
		Secrets: []store.SealedSecret{{Version: 1, Sealed: []byte("sealed")}},
	}
	if _, err := b.Put(b.t.Context(), r, store.PutOptions{}); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// writeAnew makes the next change of a key write the key file anew.
func (b *bench) writeAnew() {
	st := b.state.Load()
	st.changes.Lock()
	defer st.changes.Unlock()
	st.log.most = 0
}

// claim returns the claim of a correct request of the key that arrives now.
func (b *bench) claim() *store.Claim {
	c := &store.Claim{
		KeyID: b.record.ID, Revision: b.record.Revision, NextRevision: rand.Text(), SecretVersion: 1,
		Now: b.clock.now(), Timestamp: b.clock.now().Unix(), Window: 5 * time.Minute,
		ReplayFloorAhead: 5 * time.Second, LockAfter: 50,
	}
	_, _ = rand.Read(c.Nonce[:])
	return c
}

func (b *bench) settle(c *store.Claim) store.Verdict {
	b.t.Helper()
	v, err := b.Settle(context.Background(), c)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) expect(c *store.Claim, want auth.Reason) store.Verdict {
	b.t.Helper()
	v := b.settle(c)
	if v.Stale || v.Reason != want {
		b.t.Fatalf("%v (stale %v), want %v", v.Reason, v.Stale, want)
	}
	return v
}

func (b *bench) fail(n int) {
	b.t.Helper()
	for range n {
		c := b.claim()
		c.Failed = auth.RuleSignature
		b.expect(c, auth.SignatureMismatch)
	}
}

// crash restarts the store from the files that a killed process would leave.
// The edit, if not nil, changes these files first.
func (b *bench) crash(edit func(dir string)) {
	b.t.Helper()
	dir := copyStore(b.t, b.opt.RuntimeDir, b.dir)
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
	if edit != nil {
		edit(dir)
	}
	b.problems = &problems{}
	b.opt.OnProblem = b.problems.add
	b.Store = start(b.t, dir, b.opt)
}

// copyStore copies the files of a running store and gives the copy the mark of
// its journal. It starts again if the keeper wrote meanwhile.
func copyStore(t testing.TB, runtimeDir, dir string) string {
	t.Helper()
	for {
		mark := readFile(t, markPath(runtimeDir, dir))
		to := copyDir(t, dir)
		if bytes.Equal(mark, readFile(t, markPath(runtimeDir, dir))) {
			writeFile(t, markPath(runtimeDir, to), mark)
			return to
		}
	}
}

// markPath is where the mark of a store's directory is.
func markPath(runtimeDir, storeDir string) string {
	sum := sha256.Sum256([]byte(storeDir))
	return filepath.Join(runtimeDir, markPrefix+hex.EncodeToString(sum[:8])+markSuffix)
}

// The lengths of the header of a segment and of an entry without its texts.
const (
	segmentHead = 80
	entryHead   = 64
)

// keep does one round of the keeper's work.
func (b *bench) keep() {
	st := b.state.Load()
	st.keep(b.clock.now().Unix())
	st.sweepAll(b.clock.now().Unix())
}

// segments returns the paths of the journal's files, oldest first.
func segments(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, journalDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// snapshot returns everything that is remembered of a key, as one text.
func (b *bench) snapshot(k *keyState) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	st := b.state.Load()
	return fmt.Sprintf("revision %s lock %v failures %d nonces %d of %d buckets %+v used %+v origins %+v",
		k.stored.Load().record.Revision, k.stored.Load().record.Lock, k.failures, len(k.nonces), st.live.Load(), k.buckets, k.used, k.origins)
}
