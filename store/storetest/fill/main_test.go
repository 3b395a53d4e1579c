package main

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

// What was asked for is live, spread over the keys, and whoever opens the store
// next finds it.
func TestFill(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir := filepath.Join(t.TempDir(), "store")
	withKeys(t, dir, "ck_a", "ck_b", "ck_c")
	if err := fill(t.Context(), []string{"file", dir, "1000"}); err != nil {
		t.Fatal(err)
	}
	s, err := file.Open(dir, file.Options{RuntimeDir: file.DefaultRuntimeDir("")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	status := s.Status(t.Context())
	if got := *status.Details.Nonces; got != 1000 {
		text, _ := json.Marshal(status)
		t.Errorf("%v nonces are live: %s", got, text)
	}
}

// withKeys makes a store with keys.
func withKeys(t *testing.T, dir string, ids ...string) {
	t.Helper()
	s, err := file.Open(dir, file.Options{RuntimeDir: file.DefaultRuntimeDir("")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		r := &store.Record{ID: id, Revision: "r1", CreatedAt: time.Now(), UpdatedAt: time.Now()}
		r.Tenant, r.Scopes = "acme", []string{"*"}
		if _, err := s.Put(t.Context(), r, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArguments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for _, args := range [][]string{nil, {"file", dir}, {"file", dir, "0"}, {"file", dir, "x"}, {"disk", dir, "1"}, {"file", dir, "1"}} {
		if err := fill(t.Context(), args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
