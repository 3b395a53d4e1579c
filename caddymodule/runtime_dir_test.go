package caddymodule

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestMain keeps the marks of the tests out of the home of whoever runs them.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "card-gateway-run")
	if err != nil {
		panic(err)
	}
	_ = os.Setenv("XDG_RUNTIME_DIR", dir)
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// The embedded store keeps its high-water mark in runtime_dir, and without that
// option in the first directory of systemd or of Caddy that there is.
func TestRuntimeDir(t *testing.T) {
	dirs := map[string]string{"CARD_TEST_DIR": t.TempDir(), "RUNTIME_DIRECTORY": t.TempDir(), "XDG_RUNTIME_DIR": t.TempDir(), "STATE_DIRECTORY": t.TempDir(), "XDG_DATA_HOME": t.TempDir()}
	for name, dir := range dirs {
		t.Setenv(name, dir)
	}
	line := "\nruntime_dir {env.CARD_TEST_DIR}"
	for _, name := range []string{"CARD_TEST_DIR", "RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR", "STATE_DIRECTORY", "XDG_DATA_HOME"} {
		if err := caddy.Load([]byte(configFor(t, "file "+t.TempDir()+line)), true); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		for other, dir := range dirs {
			if other == "XDG_DATA_HOME" {
				dir = filepath.Join(dir, "caddy")
			}
			want := 0
			if other == name {
				want = 2 // by the directory, and by the identity
			}
			if marks, _ := filepath.Glob(filepath.Join(dir, "*.mark")); len(marks) != want {
				t.Errorf("with %s as the first, %s has %d marks", name, other, len(marks))
			}
		}
		t.Setenv(name, "") // the next one is the first
		delete(dirs, name)
		line = ""
	}
}
