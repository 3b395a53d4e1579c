package matrix

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// notOnDemo are the requests that the demo refuses: an applicant who waits for
// an answer cannot be sent again, and the demo's keys are not rotated by their
// holders.
var notOnDemo = map[string]int{"Resubmit KYC/KYB Applicant": 409, "Rotate the secret of this key": 404}

// unsigned is the request that shows what cannot be signed.
const unsigned = "Upload Documents as form-data"

// TestPostman runs the collection by newman against the demo, and checks that it
// is what is made from docs/openapi.yaml.
func TestPostman(t *testing.T) {
	t.Parallel()
	skipWithout(t, []string{"node", "npm"})
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+filepath.Join(dir, "node_modules"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", "--prefix", dir, "js-yaml@4", "newman@6.2.2")
	run("node", "../../../clients/postman/generate.mjs", "--check")

	value := map[string]string{}
	for _, variable := range demo(t) {
		name, text, _ := strings.Cut(variable, "=")
		value[name] = text
	}
	files, report := "../../../clients/postman/card-gateway.postman_", filepath.Join(dir, "report.json")
	said := run(filepath.Join(dir, "node_modules/.bin/newman"), "run", files+"collection.json", "-e", files+"environment.json",
		"--env-var", "baseUrl="+value["CARD_URL"], "--env-var", "keyId="+value["CARD_KEY_ID"], "--env-var", "secret="+value["CARD_SECRET"],
		"--disable-unicode", "--reporters", "cli,json", "--reporter-json-export", report)
	// newman breaks the lines of a message.
	joined := strings.Join(strings.FieldsFunc(said, func(c rune) bool { return strings.ContainsRune(" |\n", c) }), "")
	if !strings.Contains(joined, strings.ReplaceAll(unsigned+" cannot be signed: the mode formdata", " ", "")) {
		t.Errorf("no message says that form-data cannot be signed:\n%s", said)
	}
	checkReport(t, report, said)
}

// checkReport checks the answer of each request.
func checkReport(t *testing.T, path, said string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Run struct {
			Executions []struct {
				Item     struct{ Name string }
				Response *struct{ Code int }
			}
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	sent := 0
	for _, e := range report.Run.Executions {
		switch {
		case e.Item.Name == unsigned && e.Response != nil:
			t.Errorf("%s was sent", unsigned)
		case e.Item.Name == unsigned:
		case e.Response == nil:
			t.Errorf("%s has no answer", e.Item.Name)
		case e.Response.Code != notOnDemo[e.Item.Name] && e.Response.Code/100 != 2:
			t.Errorf("%s is answered %d", e.Item.Name, e.Response.Code)
		default:
			sent++
		}
	}
	if sent < 30 {
		t.Errorf("%d requests were answered as expected:\n%s", sent, said)
	}
}
