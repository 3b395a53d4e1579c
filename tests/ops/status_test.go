package ops

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// cardStatus runs card-status and returns what it prints, and its exit status.
func cardStatus(t *testing.T, g *harness.Gateway, args ...string) (out string, code int) {
	t.Helper()
	text, err := g.Command(append([]string{"card-status", "--address", "unix/" + g.Path("admin.sock")}, args...)...).CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

// TestCardStatus asks a gateway that is ready, and one that has ended. The verbose
// form names the keys that are refused most, and the last refused load.
func TestCardStatus(t *testing.T) {
	t.Parallel()
	g := withAudit(t, harness.Site{})
	often, seldom := g.NewKey(harness.Fields{"tenant": "often"}), g.NewKey(harness.Fields{"tenant": "seldom"})
	for range 3 {
		harness.WantUnauthorized(t, g.Send(t, harness.Credentials{ID: often.ID, Secret: "wrong"}.Get()), harness.WrongSignature)
	}
	harness.WantUnauthorized(t, g.Send(t, harness.Credentials{ID: seldom.ID, Secret: "wrong"}.Get()), harness.WrongSignature)
	harness.WantUnauthorized(t, g.Send(t, harness.Credentials{ID: "nobody", Secret: "wrong"}.Get()), harness.UnknownKey)
	s := g.Site
	s.Global += "\nwindow 1ns"
	if err := g.TryReload(s); err == nil {
		t.Fatal("a configuration with a fault is loaded")
	}
	g.Logged("audit.log", `"action":"load"`, `"result":"refused"`)

	out, code := cardStatus(t, g, "--verbose")
	words := strings.Join(strings.Fields(out), " ")
	if code != 0 || !strings.HasPrefix(out, "ready; degraded: config\n") {
		t.Errorf("%d: %s", code, out)
	}
	for _, want := range []string{
		"keys 2 active", "sealed 2 secrets under master key 1", "load refused 20", "window", "policy ", "audit " + g.Path("audit.log"),
		"3 signature_mismatch often " + often.ID + " 1 signature_mismatch seldom " + seldom.ID,
	} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "nobody") {
		t.Errorf("an id that a stranger invented is shown:\n%s", out)
	}
	process := fmt.Sprint(g.Pid())
	g.Stop()
	for _, args := range [][]string{{}, {"--live"}, {"--wait", "300ms"}, {"--wait", "1h", "--process", process}} {
		if out, code := cardStatus(t, g, args...); code != 2 {
			t.Errorf("%q of a gateway that has ended: %d %s", args, code, out)
		}
	}
}
