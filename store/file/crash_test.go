package file

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// crashDir is a variable of the environment. If it is set, the test binary is
// the process that TestKilled kills.
const crashDir = "CARD_GATEWAY_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		settleForever(dir)
	}
	goleak.VerifyTestMain(m)
}

// The keys of the process that is killed. One gets correct requests, one only
// failures, and one is changed.
const (
	goodKey    = "ck_test_good"
	badKey     = "ck_test_bad"
	changedKey = "ck_test_changed"
)

func crashClaim(id string) *store.Claim {
	c := &store.Claim{
		KeyID: id, Revision: "r1", NextRevision: "r2", SecretVersion: 1, Now: time.Now(),
		Window: 5 * time.Minute, ReplayFloorAhead: 5 * time.Second, LockAfter: 1 << 30,
	}
	c.Timestamp = c.Now.Unix()
	_, _ = rand.Read(c.Nonce[:])
	return c
}

// settleForever settles from several goroutines, changes a key, and writes a line for
// every answer: the nonce and timestamp that were accepted, the failure count, or the
// revision of the key.
func settleForever(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := Open(dir, Options{RuntimeDir: filepath.Dir(dir)})
	if err == nil {
		err = s.Start(context.Background())
	}
	if err != nil {
		fail(err)
	}
	for i := range 4 {
		go func() {
			for {
				c := crashClaim(goodKey)
				if i == 0 {
					c = crashClaim(badKey)
					c.Failed = auth.RuleSignature
				}
				v, err := s.Settle(context.Background(), c)
				if err != nil {
					fail(err)
				}
				line := fmt.Sprintf("failures %d\n", v.Failures)
				if v.Reason == auth.Accepted {
					line = fmt.Sprintf("%x %d\n", c.Nonce, c.Timestamp)
				}
				if _, err := os.Stdout.WriteString(line); err != nil {
					os.Exit(1)
				}
			}
		}()
	}
	for {
		r, err := s.Get(context.Background(), changedKey)
		if err != nil {
			fail(err)
		}
		expect := r.Revision
		r.Revision = revision(revisionNumber(expect) + 1)
		if _, err := s.Put(context.Background(), r, store.PutOptions{Expect: expect}); err != nil {
			fail(err)
		}
		if _, err := os.Stdout.WriteString("changed " + r.Revision + "\n"); err != nil {
			os.Exit(1)
		}
	}
}

func revision(n int) string { return fmt.Sprintf("r%d", n) }

// revisionNumber is the inverse of revision.
func revisionNumber(revision string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(revision, "r"))
	return n
}

// TestKilled kills a process that settles requests and changes a key, again and again.
// The store forgets nothing that it has answered: no request is accepted twice, and no
// failure and no change is lost.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := start(t, dir, Options{RuntimeDir: filepath.Dir(dir)})
	for _, id := range []string{goodKey, badKey, changedKey} {
		r := &store.Record{ID: id, Revision: "r1", Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}
		if _, err := s.Put(t.Context(), r, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var accepted []*store.Claim
	failures, changed := 0, 1
	for range 20 {
		for _, line := range runAndKill(t, dir, 50+mathrand.IntN(8000)) {
			if n, ok := strings.CutPrefix(line, "failures "); ok {
				got, err := strconv.Atoi(n)
				if err != nil {
					t.Fatal(err)
				}
				failures = max(failures, got)
				continue
			}
			if r, ok := strings.CutPrefix(line, "changed "); ok {
				changed = revisionNumber(r)
				continue
			}
			accepted = append(accepted, acceptedClaim(t, line))
		}
		s := checkKilled(t, dir, accepted, failures)
		r, err := s.Get(t.Context(), changedKey)
		if err != nil || revisionNumber(r.Revision) < changed || revisionNumber(r.Revision) > changed+1 {
			t.Fatalf("%+v, %v: want revision %d, or the next, which was not answered", r, err, changed)
		}
		changed = revisionNumber(r.Revision)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d accepted requests, %d failures, %d changes", len(accepted), failures, changed)
}

// runAndKill runs the process until it has written the number of lines, kills
// it, and returns all its lines.
func runAndKill(t *testing.T, dir string, lines int) (all []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewScanner(out); in.Scan(); {
		all = append(all, in.Text())
		if len(all) == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if len(all) < lines {
		t.Fatalf("the process ended after %d lines, want %d", len(all), lines)
	}
	return all
}

func acceptedClaim(t *testing.T, line string) *store.Claim {
	t.Helper()
	nonce, timestamp, _ := strings.Cut(line, " ")
	c := crashClaim(goodKey)
	if n, err := hex.Decode(c.Nonce[:], []byte(nonce)); err != nil || n != len(c.Nonce) {
		t.Fatalf("line %q: %v", line, err)
	}
	var err error
	if c.Timestamp, err = strconv.ParseInt(timestamp, 10, 64); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	return c
}

// checkKilled repeats every request that was accepted.
func checkKilled(t *testing.T, dir string, accepted []*store.Claim, failures int) *Store {
	t.Helper()
	problems := &problems{}
	s := start(t, dir, Options{OnProblem: problems.add, RuntimeDir: filepath.Dir(dir)})
	for _, c := range accepted {
		c.Now = time.Now()
		v, err := s.Settle(t.Context(), c)
		if err != nil || v.Reason != auth.ReplayedNonce {
			t.Fatalf("%v, %v: a request that was accepted before the process was killed, want a replay", v.Reason, err)
		}
	}
	r, err := s.Get(t.Context(), badKey)
	if err != nil || r.Failures < failures {
		t.Fatalf("%+v, %v: want at least %d failures", r, err, failures)
	}
	if told := problems.text(); told != "" {
		t.Fatalf("told %q after a process was killed", told)
	}
	return s
}
