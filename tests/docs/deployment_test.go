//go:build linux

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeploymentPage runs the commands of docs/deployment.md, docs/several-nodes.md and
// docs/maintenance.md, as they stand there, on empty machines of their own, under
// systemd where it can run.
func TestDeploymentPage(t *testing.T) {
	t.Parallel()
	l := inLab(t)
	if l == nil {
		return
	}
	t.Run("one node", func(t *testing.T) {
		t.Parallel()
		oneNode(t, l)
	})
	t.Run("two nodes", func(t *testing.T) {
		t.Parallel()
		twoNodes(t, l)
	})
}

// oneNode installs a gateway, makes a key, changes the configuration, upgrades, backs
// up, and practises a restore.
func oneNode(t *testing.T, l *lab) {
	w := newWalk(t, l, firstNodePage, "## One node", "## The runtime directory")
	const address = "10.0.0.41"
	m := l.boot(t, map[string]string{"one": address})[address]
	root := fmt.Sprintf("/proc/%d/root/root", m.cmd.Process.Pid)
	w.checkout(root)
	w.fills = strings.NewReplacer("10.0.0.11", address)
	for _, step := range []struct{ has, prints string }{
		{"./xcaddy.sh", ""},
		{"systemctl enable --now", "\nready\n"},
		{"card-keys create", "shown this once"},
		{"systemctl reload", "Valid configuration"},
		{"card-gateway.new", "\nready\n"},
		{"/backup/keys-", ""},
		{"card-keys drill", "opened 1 of 1 keys"},
	} {
		if step.has == "card-gateway.new" {
			w.read(maintenancePage, "## Upgrade and roll back", "## Capacity")
		}
		w.skipTo(step.has)
		b := w.next(step.has)
		w.want(b, w.on(m, b), step.prints)
	}
	refusedConfiguration(t, m, root)
}

// refusedConfiguration: a reload that is refused fails and leaves the gateway
// serving; a start that is refused fails. The journal has the reason.
func refusedConfiguration(t *testing.T, m *machine, root string) {
	t.Helper()
	caddyfile := filepath.Join(root, "../etc/card-gateway/Caddyfile")
	good, err := os.ReadFile(caddyfile)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(caddyfile, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	run := func(succeeds bool, words ...string) string {
		t.Helper()
		out, err := m.command(words...).CombinedOutput()
		if (err == nil) != succeeds {
			t.Errorf("%v: %v, want success: %t\n%s", words, err, succeeds, out)
		}
		return string(out)
	}
	write(strings.Replace(string(good), "limit total ", "limit tatol ", 1))
	run(false, "systemctl", "reload", "card-gateway")
	run(true, "card-gateway", "card-unit", "card-status")
	run(false, "systemctl", "restart", "card-gateway")
	if said := run(true, "journalctl", "-u", "card-gateway"); !strings.Contains(said, "tatol") {
		t.Errorf("the journal does not say why the gateway was refused:\n%s", said)
	}
	write(string(good))
	run(true, "systemctl", "restart", "card-gateway")
	run(true, "card-gateway", "card-unit", "card-status", "--wait", "30s")
	run(true, "systemctl", "stop", "card-gateway")
	run(false, "card-gateway", "card-unit", "card-status")
}
