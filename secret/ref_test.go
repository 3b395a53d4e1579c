package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretFileOpenToOthers: a secret that everybody may write is refused, with
// the command that mends it. Orchestrators mount secrets readable by all, so
// that alone is no reason.
func TestSecretFileOpenToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	if err := os.WriteFile(path, []byte("the secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o444: false, 0o660: false, 0o666: true, 0o602: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		secret, err := (&Ref{File: path}).Read()
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "chmod o-w "+path) || !refused && secret != "the secret" {
			t.Errorf("mode %04o: %q, %v", mode, secret, err)
		}
	}
}
