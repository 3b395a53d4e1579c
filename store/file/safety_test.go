package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// TestPlantedSymlink: a symbolic link at the path of the new key file is not
// followed.
func TestPlantedSymlink(t *testing.T) {
	b := newBench(t, Options{})
	victim := filepath.Join(t.TempDir(), "victim")
	writeFile(t, victim, []byte("precious"))
	if err := os.Symlink(victim, filepath.Join(b.dir, keyFileName+".new")); err != nil {
		t.Fatal(err)
	}
	b.newKey()
	if got := readFile(t, victim); string(got) != "precious" {
		t.Errorf("the link was followed: %.40q", got)
	}
	if info, err := os.Lstat(filepath.Join(b.dir, keyFileName)); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v: want a file of mode 0600", info, err)
	}
}

// TestPlantedKeyFile: a key file that is a link, or has a second name, is neither read nor
// written.
func TestPlantedKeyFile(t *testing.T) {
	for want, link := range map[string]func(string, string) error{"symbolic link": os.Symlink, "hard link": os.Link} {
		b := newBench(t, Options{})
		b.newKey()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(b.dir, keyFileName)
		if err := errors.Join(os.Rename(path, path+".away"), link(path+".away", path)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(b.dir, b.opt); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error that names the %s", err, want)
		}
	}
}

// TestOpenToOthers: files that other users may write are refused, by Open and by
// Start. The error has the command that corrects it.
func TestOpenToOthers(t *testing.T) {
	for _, tt := range []struct {
		path string
		mode os.FileMode
		want string
	}{
		{"", 0o700, ""},
		{"", 0o755, ""},
		{"", 0o770, ""},
		{"", 0o777, "chmod o-w"},
		{"", 0o777 | os.ModeSticky, "chmod o-w"},
		{journalDir, 0o702, "chmod o-w"},
		{keyFileName, 0o600, ""},
		{keyFileName, 0o660, ""},
		{keyFileName, 0o666, "chmod o-w"},
		{keyFileName, 0o602, "chmod o-w"},
	} {
		t.Run(tt.path+" "+tt.mode.String(), func(t *testing.T) {
			b := newBench(t, Options{})
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(b.dir, tt.path)
			opened, err := Open(b.dir, b.opt)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			startErr := opened.Start(t.Context())
			_, openErr := Open(b.dir, b.opt)
			for _, err := range []error{startErr, openErr} {
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want+" "+path) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			}
		})
	}
}

// TestKeyFileIsSynced: the new key file is synced before it replaces the old
// one, and the directory is synced after that. Changes that are appended to it are
// synced, too. If the sync fails, nothing changes.
func TestKeyFileIsSynced(t *testing.T) {
	var mu sync.Mutex
	var check func(*os.File) error
	b := newBench(t, Options{sync: func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		if check == nil || strings.HasSuffix(f.Name(), ".spare") { // the keeper's own work
			return nil
		}
		return check(f)
	}})
	path := filepath.Join(b.dir, keyFileName)
	before := readFile(t, path)
	var synced, failing []string
	b.writeAnew()
	mu.Lock()
	check = func(f *os.File) error {
		synced = append(synced, filepath.Base(f.Name()))
		current := readFile(t, path)
		switch f.Name() {
		case path + ".new":
			if _, err := parseKeyFile(path, readFile(t, f.Name())); err != nil || !bytes.Equal(current, before) {
				t.Errorf("synced before it is whole, or after it was put in place: %v", err)
			}
		case b.dir:
			if bytes.Equal(current, before) {
				t.Error("the directory is synced before the file is in its place")
			}
		}
		if slices.Contains(failing, filepath.Base(f.Name())) {
			return errors.New("the disk failed")
		}
		return nil
	}
	mu.Unlock()
	b.newKey()
	r := b.newKey()
	if want := []string{keyFileName + ".new", filepath.Base(b.dir), keyFileName}; !slices.Equal(synced, want) {
		t.Fatalf("synced %q, want %q", synced, want)
	}
	before, failing = readFile(t, path), []string{keyFileName, keyFileName + ".new"}
	next := r.Clone()
	next.Revision = "next"
	if _, err := b.Put(t.Context(), next, store.PutOptions{Expect: r.Revision}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Put: %v, want ErrUnavailable", err)
	}
	if got, err := b.Get(t.Context(), r.ID); err != nil || got.Revision != r.Revision || !bytes.Equal(readFile(t, path), before) {
		t.Errorf("%+v, %v: a change that is not on the disk was made", got, err)
	}
	mu.Lock()
	failing = nil // the end writes the file again
	mu.Unlock()
}

// refuseAppends makes the journal take no more entries, as a full disk does. It fills
// it with those of another key.
func (b *bench) refuseAppends(other *store.Record) {
	b.t.Helper()
	st := b.state.Load()
	st.keeping.Lock()
	b.t.Cleanup(st.keeping.Unlock)
	dir := filepath.Join(b.dir, journalDir)
	if err := os.Rename(dir, dir+".away"); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = os.Rename(dir+".away", dir) })
	record := b.record
	b.record = other
	if _, err := b.fillUp(); !errors.Is(err, store.ErrUnavailable) {
		b.t.Fatalf("%v, want ErrUnavailable", err)
	}
	b.record = record
}

// TestNothingHappensWithoutTheJournal: an entry that the journal did not take
// is not in memory either: no nonce, count, level or lock.
func TestNothingHappensWithoutTheJournal(t *testing.T) {
	b := newBench(t, Options{})
	limit := ratelimit.NewCharge("issue_card", ratelimit.Limit{Count: 5, Period: time.Hour, Burst: 5}, 1)
	first := b.claim()
	first.Charges = []ratelimit.Charge{limit}
	b.expect(first, auth.Accepted)
	b.fail(2)
	k := b.state.Load().key(b.record.ID)
	b.refuseAppends(b.newKey())
	before := b.snapshot(k)
	for name, edit := range map[string]func(*store.Claim){
		"accepted": func(c *store.Claim) { c.Charges, c.SecretVersion = []ratelimit.Charge{limit}, 2 },
		"counted":  func(c *store.Claim) { c.Failed = auth.RuleSignature },
		"locked":   func(c *store.Claim) { c.LockAfter = 2 },
	} {
		c := b.claim()
		c.Now = c.Now.Add(time.Minute)
		edit(c)
		if v, err := b.Settle(t.Context(), c); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %+v, %v; want ErrUnavailable", name, v, err)
		}
		if after := b.snapshot(k); after != before {
			t.Errorf("%s: the state is\n%s\nand was\n%s", name, after, before)
		}
	}
	next := b.record.Clone()
	next.Revision = "next"
	if _, err := b.Put(t.Context(), next, store.PutOptions{Expect: b.record.Revision, ClearFailures: true}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("clearing the count: %v, want ErrUnavailable", err)
	}
	if after := b.snapshot(k); after != before {
		t.Errorf("clearing the count: the state is\n%s\nand was\n%s", after, before)
	}
}
