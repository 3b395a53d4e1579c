package file

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

// TestMark: a mark that is missing or differs raises the floor, and one that
// fits does not. Without a runtime directory, each start reports that to the
// operator.
func TestMark(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(t *testing.T, b *bench, path string)
		told string
	}{
		{"fits", func(*testing.T, *bench, string) {}, ""},
		{"missing", func(t *testing.T, _ *bench, path string) { remove(t, path) }, "is missing"},
		{"lower", func(t *testing.T, b *bench, path string) {
			mark := readFile(t, path)
			mark[8] -= 2
			writeFile(t, path, mark)
		}, "does not end where"},
		{"damaged", func(t *testing.T, _ *bench, path string) { writeFile(t, path, []byte("x")) }, "is missing"},
		{"another journal's", func(t *testing.T, _ *bench, path string) {
			mark := readFile(t, path)
			mark[12] ^= 1
			writeFile(t, path, mark)
		}, "does not end where"},
		{"beside no journal", func(t *testing.T, b *bench, _ string) {
			remove(t, filepath.Join(b.dir, journalDir))
			remove(t, filepath.Join(b.dir, keyFileName))
		}, "does not end where"},
		{"none wanted", func(_ *testing.T, b *bench, _ string) { b.opt.RuntimeDir = "" }, errNoRuntimeDir.Error()},
		{"inside the store", func(t *testing.T, b *bench, path string) {
			b.opt.RuntimeDir = filepath.Join(b.dir, "run")
			remove(t, path)
		}, errRuntimeInside.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Options{})
			for range 3 {
				b.expect(b.claim(), auth.Accepted)
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			tt.edit(t, b, markPath(b.opt.RuntimeDir, b.dir))
			told := &problems{}
			b.opt.OnProblem = told.add
			s := start(t, b.dir, b.opt)
			if floor := s.state.Load().floor.Load() != 0; !strings.Contains(told.text(), tt.told) || (told.text() == "") != (tt.told == "") || floor != strings.Contains(told.text(), "nonces may be lost") {
				t.Errorf("told %q, floor raised %v; want %q", told.text(), floor, tt.told)
			}
		})
	}
}

// TestMarkCannotBeWritten: if the runtime directory is not a directory, the
// start fails. If the mark disappears later, requests go on, and the next start
// raises the floor.
func TestMarkCannotBeWritten(t *testing.T) {
	b := newBench(t, Options{})
	path := markPath(b.opt.RuntimeDir, b.dir)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	c := b.claim()
	b.expect(c, auth.Accepted)
	b.expect(b.claim(), auth.Accepted)
	if told := b.problems.text(); !strings.Contains(told, "high-water mark "+path+" or ") || !strings.Contains(told, " cannot be written") {
		t.Errorf("told %q", told)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v: the mark that is behind is still there", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(b.dir, "a file"), nil)
	b.opt.RuntimeDir = filepath.Join(b.dir, "a file")
	s, err := Open(b.dir, b.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "high-water mark") {
		t.Errorf("Start: %v, want that the mark cannot be made", err)
	}
	open := filepath.Join(t.TempDir(), "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	s.opt.RuntimeDir = open
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod o-w "+open) {
		t.Errorf("Start: %v, want that the runtime directory is open to others", err)
	}
	_ = s.Close()
}

// A default that cannot be used keeps nobody from starting: then there is none.
func TestDefaultRuntimeDir(t *testing.T) {
	for _, name := range []string{"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "STATE_DIRECTORY"} {
		t.Setenv(name, "")
	}
	open, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.Chmod(open, 0o777), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for dir, fits := range map[string]bool{t.TempDir(): true, filepath.Join(t.TempDir(), "new", "dirs"): true, open: false, filepath.Join(file, "dir"): false} {
		if got := DefaultRuntimeDir(dir); got != "" && got != dir || (got != "") != fits {
			t.Errorf("%s: %q", dir, got)
		}
	}
}
