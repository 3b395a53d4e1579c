package file

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// A changer makes random changes and knows what the store must hold before and after
// the last one: the revisions of the keys, and the named values.
type changer struct {
	*bench
	random        *mathrand.Rand
	length        int // of the longest record, in lines
	before, after map[string]string
}

func newChanger(t *testing.T, opt Options) *changer {
	opt.noKeeper = true
	c := &changer{bench: newBench(t, opt), random: mathrand.New(mathrand.NewPCG(1, 2)), length: 3}
	c.after = map[string]string{c.record.ID: c.record.Revision}
	return c
}

// expectNext notes the next change; without a value it is a removal.
func (c *changer) expectNext(name, value string) {
	c.before, c.after = c.after, maps.Clone(c.after)
	if c.after[name] = value; value == "" {
		delete(c.after, name)
	}
}

// change makes a change.
func (c *changer) change() {
	c.t.Helper()
	var err error
	ids := slices.Sorted(maps.Keys(c.after))
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, "ck_") })
	r := &store.Record{ID: "ck_" + rand.Text(), Revision: rand.Text(), Fields: store.Fields{Description: strings.Repeat("a\n]}}\n", c.random.IntN(c.length))}, Seal: []byte("seal")}
	kind := c.random.IntN(6)
	if len(ids) == 0 {
		kind = 0
	}
	switch kind {
	case 0:
		c.expectNext(r.ID, r.Revision)
		_, err = c.Put(c.t.Context(), r, store.PutOptions{})
	case 1:
		r.ID = ids[c.random.IntN(len(ids))]
		expect := c.after[r.ID]
		c.expectNext(r.ID, r.Revision)
		if c.random.IntN(2) == 0 {
			r.Seal = nil
		}
		_, err = c.Put(c.t.Context(), r, store.PutOptions{Expect: expect})
	case 2:
		id := ids[c.random.IntN(len(ids))]
		c.expectNext(id, "")
		_, err = c.Delete(c.t.Context(), id, "")
	case 3:
		name := []string{"one", "two", `a "name"`}[c.random.IntN(3)]
		if c.after[name] == "" {
			c.expectNext(name, r.Revision)
		}
		_, err = c.PutMeta(c.t.Context(), name, []byte(r.Revision))
	case 4:
		value := c.after["one"]
		c.expectNext("one", "")
		err = c.DeleteMeta(c.t.Context(), "one", []byte(value))
	default:
		claim := c.claim()
		claim.KeyID = ids[c.random.IntN(len(ids))]
		claim.Revision, claim.LockAfter = c.after[claim.KeyID], 0
		c.expectNext(claim.KeyID, claim.NextRevision)
		c.expect(claim, auth.KeyLocked)
		c.before = c.after // it was answered
		c.keep()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// content returns what a store holds.
func content(t testing.TB, s *Store) map[string]string {
	t.Helper()
	page, err := s.List(t.Context(), "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, r := range page.Records {
		all[r.ID] = r.Revision
	}
	for name, value := range s.state.Load().meta {
		all[name] = string(value)
	}
	return all
}

// started returns what a store holds that starts with the files of a directory, which
// the store has written last.
func started(t testing.TB, dir string) map[string]string {
	t.Helper()
	all, told := startedAnyhow(t, dir)
	if strings.Contains(told, errKeysReplaced.Error()) {
		t.Fatalf("told %q of the files that the store wrote last", told)
	}
	return all
}

// startedAnyhow returns also what the store reports.
func startedAnyhow(t testing.TB, dir string) (all map[string]string, told string) {
	t.Helper()
	problems := &problems{}
	s := start(t, dir, Options{boot: "one", OnProblem: problems.add, noKeeper: true})
	all = content(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := Open(dir, Options{}); err != nil || !maps.Equal(content(t, again), all) {
		t.Fatalf("%v: after a clean end another content is read", err)
	}
	return all, problems.text()
}

// TestKilledWhileItChanges kills the process at each step of changes: before and after
// each write reaches the disk. No change that was answered is lost, none is made twice,
// and the one that was not answered is made or not.
func TestKilledWhileItChanges(t *testing.T) {
	var kill func()
	c := newChanger(t, Options{sync: func(f *os.File) error {
		if kill != nil {
			kill()
			defer kill()
		}
		return f.Sync()
	}})
	c.length = 500
	anew, steps := 0, 0
	for range 100 {
		var left []string
		kill = func() { left = append(left, copyDir(t, c.dir)) }
		if c.random.IntN(20) == 0 {
			c.writeAnew()
		}
		size := fileSize(t, c.dir)
		c.change()
		kill = nil
		if fileSize(t, c.dir) < size {
			anew++
		}
		for _, dir := range left {
			steps++
			if got := started(t, dir); !maps.Equal(got, c.after) && !maps.Equal(got, c.before) {
				t.Fatalf("a killed process leaves %v; before the change there was %v, after it %v", got, c.before, c.after)
			}
		}
		if got := started(t, copyDir(t, c.dir)); !maps.Equal(got, c.after) {
			t.Fatalf("a change is lost: %v, want %v", got, c.after)
		}
	}
	if anew < 3 || steps < 150 {
		t.Errorf("the key file became shorter %d times in %d steps: the test is no longer one", anew, steps)
	}
}

func fileSize(t testing.TB, dir string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, keyFileName))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// changedFile returns a key file with changes, where each ends, and what it holds then.
func changedFile(t *testing.T) (b []byte, ends []int, holds []map[string]string) {
	t.Helper()
	c := newChanger(t, Options{})
	note := func() {
		ends, holds = append(ends, int(fileSize(t, c.dir))), append(holds, c.after)
	}
	for note(); len(ends) < 8; {
		if c.change(); fileSize(t, c.dir) != int64(ends[len(ends)-1]) {
			note()
		}
	}
	return readFile(t, filepath.Join(c.dir, keyFileName)), ends, holds
}

// opened returns what a store holds that is opened with the key file.
func opened(t testing.TB, dir string, keyFile []byte) (map[string]string, error) {
	t.Helper()
	writeFile(t, filepath.Join(dir, keyFileName), keyFile)
	s, err := Open(dir, Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return content(t, s), nil
}

// TestTornChange cuts the key file at every byte of its changes: all before the cut are
// read. What the file system has put in place of the rest does not matter.
func TestTornChange(t *testing.T) {
	whole, ends, holds := changedFile(t)
	dir := t.TempDir()
	for cut := ends[0]; cut <= len(whole); cut++ {
		want := holds[0]
		for i, end := range ends {
			if end <= cut {
				want = holds[i]
			}
		}
		for _, b := range [][]byte{whole[:cut], append(bytes.Clone(whole[:cut]), make([]byte, len(whole)-cut)...)} {
			if got, err := opened(t, dir, b); err != nil || !maps.Equal(got, want) {
				t.Fatalf("cut at byte %d of %d: %v, %v; want %v", cut, len(whole), got, err, want)
			}
		}
	}
}

// TestDamagedChange flips a bit of every byte, and removes, repeats and exchanges
// changes: the store does not open, and its error says where the fault is.
func TestDamagedChange(t *testing.T) {
	whole, ends, _ := changedFile(t)
	dir := t.TempDir()
	refused := func(what string, b []byte) {
		t.Helper()
		_, err := opened(t, dir, b)
		if err == nil || !strings.Contains(err.Error(), "restore it from a backup") && !strings.Contains(err.Error(), "use the version that wrote it") {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 1 << (at % 8)
		refused(fmt.Sprintf("byte %d of %d is flipped", at, len(whole)), b)
	}
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	first, second, rest := whole[ends[0]:ends[1]], whole[ends[1]:ends[2]], whole[ends[2]:]
	refused("a change is missing", join(whole[:ends[0]], second, rest))
	refused("a change is twice in it", join(whole[:ends[1]], first, second, rest))
	refused("changes are exchanged", join(whole[:ends[0]], second, first, rest))
	refused("a change of another version", join(whole[:ends[0]], bytes.Replace(first, []byte(`"version":2`), []byte(`"version":1`), 1), second, rest))
	refused("changes of another file", join(readFile(t, filepath.Join(newBench(t, Options{}).dir, keyFileName)), first, second))

	_, err := opened(t, dir, join(whole[:ends[1]], []byte("x\n"), second, rest))
	line := bytes.Count(whole[:ends[1]], []byte("\n")) + 1
	if want := fmt.Sprintf("its line %d, a change, is not as it was written", line); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestChangesAreAppended: the key file is written anew only now and then, so that a
// change costs the same however many keys there are.
func TestChangesAreAppended(t *testing.T) {
	anew := 0
	b := newBench(t, Options{noKeeper: true, sync: func(f *os.File) error {
		if strings.HasSuffix(f.Name(), ".new") {
			anew++
		}
		return nil
	}})
	anew = 0
	for range 2000 {
		b.record = b.newKey()
		if mathrand.IntN(10) == 0 {
			c := b.claim()
			c.LockAfter = 0
			b.expect(c, auth.KeyLocked)
			b.keep()
		}
	}
	if anew < 3 || anew > 15 {
		t.Errorf("the key file was written %d times for 2000 keys", anew)
	}
}

// TestVersionBefore: a store that was closed leaves the file that the version before
// wrote. While there may be changes in it, the file has another version, which that
// one refuses.
func TestVersionBefore(t *testing.T) {
	c := newChanger(t, Options{})
	for range 20 {
		c.change()
	}
	path := filepath.Join(c.dir, keyFileName)
	if b := readFile(t, path); !bytes.HasPrefix(b, []byte(`{"format":"card-gateway keys","version":2,`)) {
		t.Errorf("the version before reads %.60q without the changes", b)
	}
	killed := copyDir(t, c.dir)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := started(t, killed); !maps.Equal(got, c.after) {
		t.Errorf("a killed process leaves %v, want %v", got, c.after)
	}
	for _, dir := range []string{c.dir, killed} {
		b := readFile(t, filepath.Join(dir, keyFileName))
		if _, data, ok := bytes.Cut(b, []byte(keyFileData)); !ok || !bytes.Equal(b, withData(string(bytes.TrimSuffix(data, []byte(keyFileEnd))))) {
			t.Errorf("after a clean end: %s", b)
		}
	}
	before := readFile(t, path)
	if got := started(t, c.dir); !maps.Equal(got, c.after) || !bytes.Equal(before, readFile(t, path)) {
		t.Errorf("a start without a change has changed the key file; it holds %v, want %v", got, c.after)
	}
}

// TestChangeThatFails: a change that cannot be appended is in the file anew, and one
// that fails for good is not read again.
func TestChangeThatFails(t *testing.T) {
	var failing []string
	b := newBench(t, Options{noKeeper: true, sync: func(f *os.File) error {
		if slices.Contains(failing, filepath.Ext(f.Name())) {
			return errors.New("the disk failed")
		}
		return f.Sync()
	}})
	failing = []string{".json"}
	second := b.newKey()
	b.writeAnew()
	failing = nil
	b.newKey()
	failing = []string{".json", ".new"}
	if _, err := b.Delete(t.Context(), second.ID, ""); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Delete: %v, want ErrUnavailable", err)
	}
	killed := copyDir(t, b.dir)
	failing = nil
	if got := started(t, killed); len(got) != 3 || got[second.ID] != second.Revision {
		t.Errorf("%v, want three keys with %s", got, second.ID)
	}
	b.newKey()
	if got := started(t, copyDir(t, b.dir)); len(got) != 4 {
		t.Errorf("%v, want four keys", got)
	}
}

// TestLostChangesAreNoticed: a key file that was put back from an older copy, or lacks a
// change that was answered, is not the one that the journal notes.
func TestLostChangesAreNoticed(t *testing.T) {
	c := newChanger(t, Options{})
	path := filepath.Join(c.dir, keyFileName)
	older := readFile(t, path)
	for range 10 {
		c.change()
	}
	c.record = c.newKey()
	killed, whole := copyDir(t, c.dir), readFile(t, path)
	for range 3 { // the journal removes the segments of before
		c.fail(1)
		c.clock.advance(time.Hour)
		c.keep()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	closed := copyDir(t, c.dir)
	end := len(whole)
	for range 3 { // a kill can cost the last change, which was not answered
		end = bytes.LastIndexByte(whole[:end-1], '\n') + 1
	}
	for _, dir := range []string{killed, closed} {
		for name, file := range map[string][]byte{"an older copy": older, "of another store": withData(`{"meta":{},"keys":[]}`), "without three changes": whole[:end], "with half a change": whole[:end+20]} {
			dir := copyDir(t, dir)
			writeFile(t, filepath.Join(dir, keyFileName), file)
			if _, told := startedAnyhow(t, dir); !strings.Contains(told, errKeysReplaced.Error()) {
				t.Errorf("%s: told %q", name, told)
			}
			started(t, dir) // it is told once
		}
		started(t, dir)
	}
}

// TestKeyFileIsReplaced: if somebody puts another key file in its place, or removes it,
// no later change is lost.
func TestKeyFileIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, withData(`{"meta":{},"keys":[]}`), 0o600))
		},
	} {
		b := newBench(t, Options{})
		second := b.newKey()
		if err := replace(filepath.Join(b.dir, keyFileName)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Delete(context.Background(), second.ID, ""); err != nil {
			t.Fatal(err)
		}
		if got := started(t, copyDir(t, b.dir)); len(got) != 1 || got[b.record.ID] == "" {
			t.Errorf("%s: %v, want one key", name, got)
		}
	}
}
