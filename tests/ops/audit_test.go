package ops

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// withAudit returns a gateway that writes an audit file.
func withAudit(t *testing.T, s harness.Site) *harness.Gateway {
	t.Helper()
	g := harness.NewGateway(t, s)
	g.Site.Upstream = harness.StartUpstream(t).Addr
	g.Site.Global += "\naudit file " + g.Path("audit.log")
	g.Start()
	return g
}

// An auditLine is what tests read of a line of the audit record.
type auditLine struct {
	Seq     int    `json:"seq"`
	Actor   string `json:"actor"`
	Claimed string `json:"claimed"`
	Action  string `json:"action"`
	KeyID   string `json:"key_id"`
	Result  string `json:"result"`
	Status  int    `json:"status"`
	Error   string `json:"error"`
	Changes map[string]struct{ Old, New json.RawMessage }
}

func auditLines(t *testing.T, text string) []auditLine {
	t.Helper()
	var all []auditLine
	for line := range strings.Lines(text) {
		var l auditLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, l)
	}
	return all
}

func verifyAudit(t *testing.T, g *harness.Gateway, files ...string) (out string, whole bool) {
	t.Helper()
	args := []string{"card-keys", "audit", "verify"}
	for _, name := range files {
		args = append(args, g.Path(name))
	}
	text, err := g.Command(args...).CombinedOutput()
	return string(text), err == nil
}

// TestAuditRecordIsComplete changes keys, is refused, and loads configurations,
// while the log of the record takes errors only and strangers send what fills a journal. The
// record has a line for each change and attempt and nothing else, and names the
// line that somebody deletes.
func TestAuditRecordIsComplete(t *testing.T) {
	t.Parallel()
	g := withAudit(t, harness.Site{Options: "log audit_copy {\n\tinclude card_gateway.audit\n\toutput discard\n\tlevel ERROR\n}"})
	key := g.NewKey(nil)
	for range 300 {
		harness.WantUnauthorized(t, g.Send(t, harness.Credentials{ID: "nobody", Secret: "x"}.Get()), harness.UnknownKey)
	}
	g.Do(key, "disable")
	if out, err := g.Command("card-keys", "enable", key.ID, "--address", "unix/"+g.Path("admin.sock"), "--actor", "gateway").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g.Admin(http.MethodPost, "/card-gateway/keys", "application/json", `{"tenant":"acme"}`)
	g.Admin(http.MethodDelete, "/card-gateway/keys/nobody", "", "")
	s := g.Site
	s.Global += "\nlock_after 7"
	s.Auth = "dry_run"
	g.Reload(s)
	s.Global += "\nwindow 1ns"
	if err := g.TryReload(s); err == nil {
		t.Fatal("a configuration with a fault is loaded")
	}
	g.Do(key, "disable")
	refused := g.Logged("audit.log", `"result":"refused"`, `"action":"load"`)
	if !strings.Contains(refused, "window") {
		t.Errorf("a refused load: %s", refused)
	}

	socket := "unix:" + g.Path("admin.sock")
	lines := auditLines(t, g.ReadFile("audit.log"))
	want := []auditLine{
		{Actor: "admin endpoint", Action: "load", Result: "ok"},
		{Actor: socket, Action: "create", Result: "ok"},
		{Actor: socket, Action: "disable", Result: "ok"},
		{Actor: socket, Action: "enable", Result: "ok", Claimed: "gateway"},
		{Actor: socket, Action: "create", Result: "refused", Status: 422},
		{Actor: socket, Action: "delete", Result: "refused", Status: 404},
		{Actor: "admin endpoint", Action: "load", Result: "ok"},
	}
	for i, w := range want {
		l := lines[i]
		if l.Seq != i+1 || l.Actor != w.Actor || l.Action != w.Action || l.Result != w.Result || l.Claimed != w.Claimed || l.Status != w.Status {
			t.Errorf("line %d is %+v, want %+v", i+1, l, w)
		}
	}
	if len(lines) != len(want)+2 {
		t.Errorf("%d lines, want %d and those of the refused load and the last disable", len(lines), len(want))
	}
	changes := lines[6].Changes
	if string(changes["card_gateway.lock_after"].New) != "7" || !strings.Contains(string(changes["card_auth"].New), "dry_run") || len(changes) != 2 {
		t.Errorf("the load changed %v", changes)
	}

	if out, whole := verifyAudit(t, g, "audit.log"); !whole || !strings.Contains(out, "checked 9 lines") {
		t.Errorf("the whole record: %s", out)
	}
	text := strings.SplitAfter(g.ReadFile("audit.log"), "\n")
	g.WriteFile("audit.log", strings.Join(append(text[:2:2], text[3:]...), ""))
	if out, whole := verifyAudit(t, g, "audit.log"); whole || !strings.Contains(out, "line 3 is missing") {
		t.Errorf("without the line of the disable: %s", out)
	}
}

// TestAuditRecordGoesOn renames the file, kills the process and starts it again.
// While the file cannot be written no key is changed, and requests go on.
func TestAuditRecordGoesOn(t *testing.T) {
	t.Parallel()
	g := withAudit(t, harness.Site{})
	key := g.NewKey(nil)
	if err := os.Rename(g.Path("audit.log"), g.Path("audit.log.1")); err != nil {
		t.Fatal(err)
	}
	g.Do(key, "disable")
	g.Kill()
	g.Start()
	g.Do(key, "enable")
	if out, whole := verifyAudit(t, g, "audit.log", "audit.log.1"); !whole || !strings.Contains(out, "numbers 1 to 5") {
		t.Errorf("after a rotation and a crash: %s", out)
	}

	if err := os.Rename(g.Path("audit.log"), g.Path("audit.log.2")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(g.Path("audit.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	if status, answer := g.Admin(http.MethodPost, "/card-gateway/keys/"+key.ID+"/disable", "", ""); status != http.StatusServiceUnavailable || !strings.Contains(answer, "audit record") {
		t.Errorf("a change without a record: %d %s", status, answer)
	}
	harness.WantAccepted(t, g.Send(t, key.Get()))
	harness.Eventually(t, "the gateway reports the audit record", func() bool {
		answer, err := g.Try(&harness.Request{Method: http.MethodGet, Target: "/readyz"})
		return err == nil && answer.Status == http.StatusOK && strings.Contains(answer.Body, `"audit"`)
	})
	if err := os.Remove(g.Path("audit.log")); err != nil {
		t.Fatal(err)
	}
	g.Do(key, "disable")
	if out, whole := verifyAudit(t, g, "audit.log", "audit.log.1", "audit.log.2"); !whole || !strings.Contains(out, "numbers 1 to ") {
		t.Errorf("after an outage of the record: %s", out)
	}
	if !strings.Contains(g.ReadFile("audit.log"), `"result":"failed"`) {
		t.Error("the change that was refused meanwhile has no line")
	}
}

// TestValidateWritesNoAudit validates a configuration whose record would be made.
func TestValidateWritesNoAudit(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.Site.Global = "audit file " + g.Path("logs/audit.log")
	if err := os.Mkdir(g.Path("logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.WriteFile("Caddyfile", g.Caddyfile())
	if out, err := g.Command("validate", "--config", g.Path("Caddyfile"), "--adapter", "caddyfile").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if found, err := filepath.Glob(g.Path("logs/*")); err != nil || len(found) != 0 {
		t.Errorf("validate made %v (%v)", found, err)
	}
	if err := os.Remove(g.Path("logs")); err != nil {
		t.Fatal(err)
	}
	harness.WantStartError(t, g.RefusesToStart(), "cannot be an audit file")
}
