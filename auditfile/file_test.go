package auditfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A bench is an audit file with its writer, which may be started anew as by
// another process.
type bench struct {
	t    testing.TB
	path string
	*File
	lines int
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t, path: filepath.Join(t.TempDir(), "audit.log")}
	b.restart()
	t.Cleanup(b.release)
	return b
}

// release gives up the lock, as the end of the process does.
func (b *bench) release() {
	if b.File != nil {
		_ = b.Ready(context.Background()) // no line is under way after this
		if b.w.lock != nil {
			_ = b.w.lock.Unlock()
		}
	}
}

func (b *bench) restart() {
	b.release()
	b.File = newFile(b.path)
}

func (b *bench) write(n int) {
	b.t.Helper()
	for range n {
		b.lines++
		b.Append(fmt.Appendf(nil, `{"action":"disable","n":%d}`, b.lines))
	}
	if err := b.Ready(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) text() string {
	b.t.Helper()
	text, err := os.ReadFile(b.path)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

func (b *bench) put(path, text string) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) verify(paths ...string) Report {
	b.t.Helper()
	if paths == nil {
		paths = []string{b.path}
	}
	r, err := Verify(paths, 1)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bench) wantWhole(lines int, paths ...string) {
	b.t.Helper()
	if r := b.verify(paths...); r.Fault != "" || r.Lines != lines || len(r.Torn) != 0 {
		b.t.Errorf("%+v, want %d lines without a fault", r, lines)
	}
}

// The chain goes on through restarts, and through rotations that rename the file or
// copy and empty it.
func TestChainGoesOn(t *testing.T) {
	b := newBench(t)
	b.write(3)
	b.restart()
	b.write(2)
	b.wantWhole(5)

	if err := os.Rename(b.path, b.path+".1"); err != nil {
		t.Fatal(err)
	}
	b.write(2)
	b.wantWhole(7, b.path, b.path+".1")
	if r := b.verify(b.path); !strings.Contains(r.Fault, "lines 1 to 5 are missing") {
		t.Errorf("the newest file alone: %+v", r)
	}
	if r, err := Verify([]string{b.path}, 6); err != nil || r.Fault != "" || r.First != 6 || r.Lines != 2 {
		t.Errorf("the newest file, of a record whose first five lines were deleted: %+v, %v", r, err)
	}

	b.put(b.path+".copy", b.text())
	if err := os.Truncate(b.path, 0); err != nil {
		t.Fatal(err)
	}
	b.write(1)
	b.wantWhole(8, b.path+".copy", b.path, b.path+".1")

	if err := os.Rename(b.path, b.path+".2"); err != nil { // and a restart at once
		t.Fatal(err)
	}
	b.restart()
	b.write(2)
	b.wantWhole(10, b.path+".1", b.path+".2", b.path, b.path+".copy", b.path+".head")

	if err := os.Remove(b.path + ".head"); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.write(1)
	b.wantWhole(11, b.path+".1", b.path+".2", b.path, b.path+".copy")
}

// Files of several gateways, read together, are a chain for each, in any order.
func TestTwoNodes(t *testing.T) {
	in, drawn := t.TempDir(), 0
	put := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		drawn++
		var paths, newest []string
		all, nodes := 0, rapid.IntRange(2, 3).Draw(t, "nodes")
		for node := range nodes {
			var last link
			path := fmt.Sprintf("%s/%d.%d.log", in, drawn, node)
			for files := rapid.IntRange(0, 2).Draw(t, "older files"); files >= 0; files-- {
				text := ""
				for range rapid.IntRange(1, 3).Draw(t, "lines") {
					var line []byte
					line, last = last.next(fmt.Appendf(nil, `{"node":%d}`, node))
					text, all = text+string(line), all+1
				}
				name := path
				if files > 0 {
					name = fmt.Sprint(path, ".", files)
				}
				put(name, text)
				paths = append(paths, name)
			}
			newest = append(newest, path)
			put(path+headSuffix, last.String())
		}
		paths = rapid.Permutation(paths).Draw(t, "order")
		sum := func() (chains, lines int, faults string) {
			r, err := Verify(paths, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range append([]Report{r}, r.Others...) {
				lines, faults = lines+one.Lines, faults+one.Fault
			}
			return 1 + len(r.Others), lines, faults
		}
		if chains, lines, faults := sum(); chains != nodes || lines != all || faults != "" {
			t.Fatalf("%d chains, %d lines, %s; want %d and %d without a fault", chains, lines, faults, nodes, all)
		}
		victim := rapid.SampledFrom(newest).Draw(t, "victim")
		whole, _ := os.ReadFile(victim)
		put(victim, string(whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1])) // without its last line
		if _, _, faults := sum(); !strings.Contains(faults, "is missing") {
			t.Fatalf("the line that %s has lost is not noticed: %q", victim, faults)
		}
	})
}

// A crash cuts the last line off, or loses the head's last change. Neither is
// taken for a change by somebody.
func TestCrash(t *testing.T) {
	b := newBench(t)
	b.write(3)
	whole := b.text()
	b.put(b.path, whole+`{"seq":4,"prev":"00`)
	b.restart()
	if r := b.verify(); r.Fault != "" || len(r.Torn) != 1 || r.Lines != 3 {
		t.Errorf("before the restart: %+v", r)
	}
	b.write(1)
	if r := b.verify(); r.Fault != "" || len(r.Torn) != 1 || !strings.HasSuffix(r.Torn[0], "audit.log:4") || r.Lines != 5 {
		t.Errorf("after the restart: %+v", r)
	}

	older, _, _ := readHead(b.path + ".head")
	b.write(2)
	b.put(b.path+".head", older.String())
	b.restart()
	b.write(1)
	if r := b.verify(); r.Fault != "" || r.Lines != 8 {
		t.Errorf("with an old head: %+v", r)
	}

	// Cut off, and then moved away before the next line.
	b.put(b.path+".1", b.text()+"{")
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	b.write(1)
	if r := b.verify(b.path+".1", b.path); r.Fault != "" || len(r.Torn) != 2 || r.Lines != 9 {
		t.Errorf("cut off and moved: %+v", r)
	}
}

// The first line that is missing or was changed is named.
func TestFaultIsNamed(t *testing.T) {
	b := newBench(t)
	b.write(6)
	whole := strings.SplitAfter(b.text(), "\n")[:6]
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for name, test := range map[string]struct{ text, want string }{
		"deleted":       {join(whole[0], whole[1], whole[3], whole[4], whole[5]), "line 3 is missing"},
		"first deleted": {join(whole[1:]...), "lines 1 to 1 are missing"},
		"only the last": {whole[5], "lines 1 to 5 are missing"},
		"last deleted":  {join(whole[:5]...), "line 6 is missing"},
		"two deleted":   {join(whole[:4]...), "line 5 is missing"},
		"changed":       {join(whole[0], strings.Replace(whole[1], "disable", "enable.", 1), join(whole[2:]...)), "audit.log:2 (line 2) was changed"},
		"last changed":  {join(join(whole[:5]...), strings.Replace(whole[5], "disable", "enable.", 1)), "audit.log:6 (line 6) was changed"},
		"swapped":       {join(whole[0], whole[2], whole[1], join(whole[3:]...)), "line 2 is missing"},
		"repeated":      {join(whole[0], whole[0], join(whole[1:]...)), "audit.log:2 was changed or is in the wrong place"},
		"garbage":       {join(whole[0], "garbage\n", join(whole[2:]...)), "audit.log:2 was changed: it is not a line"},
		"garbage last":  {join(join(whole[:5]...), "garbage\n"), "line 6 is missing"},
		"cut":           {join(join(whole[:5]...), whole[5][:40]), "line 6 is missing"},
		"inserted":      {join(whole[0], "{}\n", join(whole[1:]...)), "audit.log:2 was changed: it is not a line"},
	} {
		b.put(b.path, test.text)
		if r := b.verify(); !strings.Contains(r.Fault, test.want) {
			t.Errorf("%s: %q, want %q", name, r.Fault, test.want)
		}
	}
	b.put(b.path, "")
	if _, err := Verify([]string{b.path}, 1); !errors.Is(err, ErrNoLines) {
		t.Errorf("an empty file: %v", err)
	}
}

// Whatever byte changes, it is noticed, and never before the line in which it is.
func TestEveryByteCounts(t *testing.T) {
	b := newBench(t)
	b.write(4)
	whole := b.text()
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(whole)-1).Draw(t, "at")
		changed := []byte(whole)
		changed[at] ^= byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
		b.put(b.path, string(changed))
		r, err := Verify([]string{b.path}, 1)
		if err != nil || r.Fault == "" {
			t.Fatalf("a change at %d is not noticed: %+v, %v", at, r, err)
		}
		if line := 1 + strings.Count(whole[:at], "\n"); r.Lines < line-1 {
			t.Fatalf("a change in line %d is reported after %d lines: %s", line, r.Lines, r.Fault)
		}
	})
}

// Lines wait while the file cannot be written, and a change would be refused.
func TestCannotBeWritten(t *testing.T) {
	b := newBench(t)
	b.write(2)
	if err := os.Rename(b.path, b.path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.path, 0o700); err != nil {
		t.Fatal(err)
	}
	b.Append([]byte(`{"action":"lock"}`))
	b.Append([]byte(`{"action":"lock"}`))
	if err := b.Ready(t.Context()); !errors.Is(err, ErrUnfit) || !b.LinesWait() || b.State().Trouble == "" {
		t.Errorf("a directory in its place: %v, behind %v", err, b.LinesWait())
	}
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	b.write(1)
	if b.LinesWait() || b.State().Seq != 5 {
		t.Errorf("behind %v, %+v", b.LinesWait(), b.State())
	}
	b.wantWhole(5, b.path, b.path+".1")
}

// Lines for which there is no place are counted, and a line has their number.
func TestTooManyWait(t *testing.T) {
	b := newBench(t)
	b.write(1)
	b.w.waiting = make([][]byte, maxWaiting)
	for i := range b.w.waiting {
		b.w.waiting[i] = []byte(`{}`)
	}
	if b.w.hold([]byte(`{}`)) {
		t.Error("a line too many is held")
	}
	b.lost.Add(1)
	b.write(1) // is lost too
	if !strings.Contains(b.text(), `"action":"lost","lost":2}`) {
		t.Error("no line has the number of those lost")
	}
	b.wantWhole(1 + maxWaiting + 1)
}

// Where no file can be, the cause says so at once; two processes never write one.
func TestUnfit(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none", "audit.log"), "/dev/null"} {
		if err := newFile(path).Ready(t.Context()); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	b := newBench(t)
	b.write(1)
	second := exec.Command(os.Args[0], "-test.run=^TestSecondProcess$")
	second.Env = append(os.Environ(), "CARD_TEST_SECOND="+b.path)
	if out, err := second.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("another process writes it")) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPlanted: nothing is written through a link or a second name that somebody has
// planted at the file or its head, and validating finds it.
func TestPlanted(t *testing.T) {
	plant := map[string]func(victim, path string) error{"symbolic link": os.Symlink, "hard link": os.Link}
	for want, link := range plant {
		for _, suffix := range []string{"", ".head"} {
			b := newBench(t)
			victim := filepath.Join(t.TempDir(), "victim")
			b.put(victim, "precious\n")
			if err := link(victim, b.path+suffix); err != nil {
				t.Fatal(err)
			}
			b.Append([]byte(`{"action":"disable"}`))
			ready, check := b.Ready(t.Context()), Check(b.path)
			for _, err := range []error{ready, check} {
				if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "remove") {
					t.Errorf("%s at audit.log%s: %v", want, suffix, err)
				}
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious\n" {
				t.Errorf("%s at audit.log%s: the victim holds %q, %v", want, suffix, text, err)
			}
		}
	}
	b := newBench(t)
	if err := Check(b.path); err != nil {
		t.Errorf("a file that is not there yet: %v", err)
	}
	if _, err := os.Stat(b.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Check made the file: %v", err)
	}
	if err := os.Chmod(filepath.Dir(b.path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(t.Context()); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "chmod o-w "+filepath.Dir(b.path)) {
		t.Errorf("a directory that everybody may write: %v", err)
	}
}

// TestSecondProcess is the second process of TestUnfit.
func TestSecondProcess(t *testing.T) {
	path := os.Getenv("CARD_TEST_SECOND")
	if path == "" {
		t.Skip("only as the second process of TestUnfit")
	}
	fmt.Println(newFile(path).Ready(t.Context()))
}
