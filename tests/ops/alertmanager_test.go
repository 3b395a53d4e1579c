package ops

import (
	"os/exec"
	"strings"
	"testing"
)

// amtool runs Alertmanager's checker in the directory ops.
func amtool(t testing.TB, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("amtool")
	if err != nil {
		t.Fatal("amtool is not installed; tests/install-tools.sh installs it (Debian package prometheus-alertmanager)")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = "../../ops"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("amtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestAlertmanagerConfiguration routes each alert by its severity.
func TestAlertmanagerConfiguration(t *testing.T) {
	t.Parallel()
	amtool(t, "check-config", "alertmanager.yml")
	routed := make(map[string]bool)
	for _, r := range rules(t, "../../ops/alerts.yml") {
		severity := r.Labels["severity"]
		want := "channel"
		if severity == "critical" {
			want = "page"
		}
		if routed[r.Alert+severity] {
			continue
		}
		routed[r.Alert+severity] = true
		got := amtool(t, "config", "routes", "test", "--config.file=alertmanager.yml", "alertname="+r.Alert, "severity="+severity, "job=card-gateway")
		if got != want {
			t.Errorf("%s, %s, goes to %q, want %s", r.Alert, severity, got, want)
		}
	}
}
