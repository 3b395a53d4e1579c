package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretFileOpenToOthers: a secret that everybody may write is refused, with
// the command that mends it, and so is one that everybody may read by an oversight.
// Orchestrators mount secrets readable by all: as 0444, or behind a link.
func TestSecretFileOpenToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(path, []byte("the secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o440: "", 0o444: "", 0o660: "", 0o644: "chmod 0600 " + path, 0o604: "chmod 0600 " + path, 0o666: "chmod o-w " + path, 0o602: "chmod o-w " + path} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		secret, err := (&Ref{File: path}).Read()
		if (want != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), want) || err == nil && secret != "the secret" {
			t.Errorf("mode %04o: %q, %v", mode, secret, err)
		}
		if _, err := (&Ref{File: link}).Read(); (err == nil) != (mode&0o002 == 0) {
			t.Errorf("mode %04o behind a link: %v", mode, err)
		}
	}
}
