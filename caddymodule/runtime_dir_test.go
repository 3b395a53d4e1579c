package caddymodule

import (
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// The embedded store keeps its high-water mark in runtime_dir, and without that
// option in the runtime directory of systemd.
func TestRuntimeDir(t *testing.T) {
	named, given := t.TempDir(), t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", given)
	t.Setenv("CARD_TEST_DIR", named)
	for _, tt := range []struct{ lines, want, none string }{
		{"file " + t.TempDir() + "\nruntime_dir {env.CARD_TEST_DIR}", named, given},
		{"file " + t.TempDir(), given, named},
	} {
		if err := caddy.Load([]byte(configFor(t, tt.lines)), true); err != nil {
			t.Fatal(err)
		}
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		if marks, _ := filepath.Glob(filepath.Join(tt.want, "*.mark")); len(marks) != 2 { // by the directory, and by the identity
			t.Errorf("%s: %q has %d marks", tt.lines, tt.want, len(marks))
		}
		if tt.want == named {
			if marks, _ := filepath.Glob(filepath.Join(tt.none, "*.mark")); len(marks) != 0 {
				t.Errorf("%s: %q has a mark", tt.lines, tt.none)
			}
		}
	}
}
