package ops

import (
	"bytes"
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
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("amtool %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// TestAlertmanagerConfiguration checks the file, and the receiver of each severity.
func TestAlertmanagerConfiguration(t *testing.T) {
	t.Parallel()
	amtool(t, "check-config", "alertmanager.yml")
	for severity, want := range map[string]string{"critical": "page", "warning": "channel", "info": "channel"} {
		got := amtool(t, "config", "routes", "test", "--config.file=alertmanager.yml", "alertname=CardGatewayAny", "severity="+severity, "job=card-gateway")
		if got != want {
			t.Errorf("an alert with severity %s goes to %q, want %s", severity, got, want)
		}
	}
}
