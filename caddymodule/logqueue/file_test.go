package logqueue

import (
	"os"
	"path/filepath"
	"testing"
)

// What can be written is found out without creating anything.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		file:                               true,
		filepath.Join(dir, "new"):          true,
		filepath.Join(dir, "new/dirs/new"): true,
		dir:                                false,
		filepath.Join(file, "new"):         false,
		filepath.Join(file, "dirs/new"):    false,
	} {
		if err := writable(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(file); string(text) != "kept" {
		t.Errorf("the file has %q (%v)", text, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the directory has %v (%v)", entries, err)
	}
}
