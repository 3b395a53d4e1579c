package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestDeploymentPage runs the commands of docs/deployment.md for one node, as they
// stand there, on a machine of their own: install, make a key, change the
// configuration, upgrade, back up, and practise a restore. It skips the test where
// the system does not let users have namespaces.
func TestDeploymentPage(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "-Urmnpf", "--kill-child", "mount", "-t", "tmpfs", "tmpfs", "/mnt").CombinedOutput(); err != nil {
		t.Skipf("namespaces are not to be had here: %v: %s", err, out)
	}
	page, err := os.ReadFile("../../docs/deployment.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	wanted := []string{"systemctl enable --now", "card-keys create", "systemctl reload", "card-gateway.new", "/backup/keys-", "card-keys drill"}
	for _, b := range harness.Blocks(harness.Page{Path: "docs/deployment.md", Text: string(page)}) {
		if len(wanted) == 0 || b.Language != "sh" || !strings.Contains(b.Text, wanted[0]) {
			continue
		}
		script.WriteString(b.Text)
		wanted = wanted[1:]
	}
	if len(wanted) > 0 {
		t.Fatalf("no block of commands of the page has %q", wanted[0])
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "script")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "-Urmnpf", "--kill-child", "./machine.sh", root, repository, harness.Binary(t), path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"\nready\n", "Valid configuration", "shown this once", "opened 1 of 1 keys"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the commands print no %q:\n%s", want, out)
		}
	}
}
