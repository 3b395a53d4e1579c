package openapi

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// TestRecordedAnswers holds the document against the answers of the gateway and of
// the sandbox that the end-to-end tests have written down. Those of the issuers
// of these tests are not looked at: they say anything.
func TestRecordedAnswers(t *testing.T) {
	dir := os.Getenv(harness.AnswersDir)
	if dir == "" {
		t.Skipf("%s is not set: `make unit` runs the end-to-end tests and this one with it", harness.AnswersDir)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "answers.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no answers in %s (%v): run the end-to-end tests with %s", dir, err, harness.AnswersDir)
	}
	j, judged, complaints := newJudge(t), 0, make(map[string]bool)
	for _, file := range files {
		for _, r := range readRecorded(t, file) {
			o, u := j.called(&r)
			if o == nil {
				continue
			}
			judged++
			for _, wrong := range j.answer(o, u, &harness.Response{Status: r.Status, Header: r.Header, Body: r.Body}) {
				if complaint := o.Name + " " + status(r.Status) + ": " + wrong; !complaints[complaint] {
					complaints[complaint] = true
					t.Errorf("%s: %s\nin the answer to %s %s: %.600s", filepath.Base(filepath.Dir(file)), complaint, r.Method, r.Target, r.Body)
				}
			}
		}
	}
	t.Logf("%d answers of %d packages were judged", judged, len(files))
	if judged < 100 {
		t.Errorf("only %d answers were judged", judged)
	}
}

// called returns the operation to judge an answer by, or nil if it is not to be
// judged: an answer of a test's own issuer, or one that was forced.
func (j *judge) called(r *harness.Recorded) (*document.Operation, *url.URL) {
	sandboxes := r.Header.Get("X-Sandbox") != ""
	if r.Method == "HEAD" || !sandboxes && !ours(r) {
		return nil, nil
	}
	o, u := j.operation(r.Method, r.Target)
	known := o != nil && o.Responses.Codes.GetOrZero(status(r.Status)) != nil
	if known || sandboxes && o != nil && !strings.Contains(r.Body, "X-Sandbox-Force") {
		return o, u
	}
	if sandboxes {
		return nil, nil
	}
	if o = j.standIn(r.Status); o == nil {
		return nil, nil
	}
	return o, &url.URL{Path: o.Path}
}

func readRecorded(t *testing.T, file string) []harness.Recorded {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []harness.Recorded
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r harness.Recorded
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return all
}

// ours reports whether the gateway itself has made an answer: a refusal with a code
// of its table, or an answer of card_self.
func ours(r *harness.Recorded) bool {
	path, _, _ := strings.Cut(r.Target, "?")
	if strings.HasPrefix(strings.ToLower(path), "/gateway/v1/") && strings.HasPrefix(r.Body, `{"data":`) {
		return true
	}
	if !strings.HasPrefix(r.Body, `{"success":false,"error":{"code":"`) || r.Header.Get("Cache-Control") != "no-store" {
		return false
	}
	var body struct{ Error struct{ Code string } }
	_ = json.Unmarshal([]byte(r.Body), &body)
	for _, reason := range auth.Reasons() {
		if reason.Code() == body.Error.Code && reason.Status() == r.Status {
			return true
		}
	}
	return false
}
