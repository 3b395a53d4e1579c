package file

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// TestOpenOnly: before Start nothing is created or locked. Reading works, even
// while another process uses the directory. Settling does not work.
func TestOpenOnly(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "not", "there")
	s, err := Open(empty, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(empty)); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v: Open made the directory", err)
	}
	if _, err := s.List(t.Context(), "", 10); err != nil {
		t.Fatal(err)
	}

	b := newBench(t, Options{})
	if _, err := b.PutMeta(t.Context(), "name", []byte("value")); err != nil {
		t.Fatal(err)
	}
	before := storeFiles(t, b.dir)
	s, err = Open(b.dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), b.record.ID); err != nil || r.Revision != b.record.Revision {
		t.Fatalf("Get: %+v, %v", r, err)
	}
	if v, err := s.Meta(t.Context(), "name"); err != nil || string(v) != "value" {
		t.Fatalf("Meta: %q, %v", v, err)
	}
	if _, err := s.Settle(t.Context(), b.claim()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Settle: %v, want ErrUnavailable", err)
	}
	if _, err := s.Put(t.Context(), b.record, store.PutOptions{}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Put: %v, want ErrUnavailable", err)
	}
	if _, err := s.PutMeta(t.Context(), "another", nil); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("PutMeta: %v, want ErrUnavailable", err)
	}
	err = s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), b.dir) || !strings.Contains(err.Error(), "used by another process") {
		t.Fatalf("Start: %v, want that another process uses %s", err, b.dir)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if after := storeFiles(t, b.dir); !reflect.DeepEqual(before, after) {
		t.Fatalf("files %v, before %v", after, before)
	}
	b.expect(b.claim(), auth.Accepted)
}

// TestPermissions: no other user can read the files of the store.
func TestPermissions(t *testing.T) {
	b := newBench(t, Options{})
	b.expect(b.claim(), auth.Accepted)
	err := filepath.Walk(b.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
