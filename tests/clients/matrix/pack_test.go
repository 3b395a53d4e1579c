package matrix

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPack packs all clients, as `make clients` does.
func TestPack(t *testing.T) {
	for _, l := range languages {
		skipWithout(t, l.needs)
	}
	out, err := exec.Command("../../../clients/pack.sh", t.TempDir()).CombinedOutput()
	if sums := strings.Count(string(out), "\n"); err != nil || sums != len(languages) || strings.Contains(string(out), "not packed") {
		t.Errorf("%v, want a checksum for each of %d clients:\n%s", err, len(languages), out)
	}
}
