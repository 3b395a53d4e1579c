package matrix

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestPostmanSendsSameBytes sends one request of the collection again and again: as the
// same bytes until an answer settles it, unless its user asks for a new call.
func TestPostmanSendsSameBytes(t *testing.T) {
	t.Parallel()
	skipWithout(t, []string{"node", "npm"})
	dir := t.TempDir()
	if out, err := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline", "--prefix", dir, "newman@6.2.2").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	replay := harness.Answer(401, `{"success":false,"error":{"code":"UNAUTHORIZED","message":"Replay detected (duplicate nonce)"}}`)
	for _, c := range []struct {
		name    string
		request string
		answers []harness.Reply
		anew    int   // the attempt before which the user asks for a new call
		want    []int // which call each attempt is
	}{
		{"until it is answered", "Create Customer", []harness.Reply{{}, harness.Answer(503, ""), harness.Answer(504, ""), harness.Answer(201, "{}"), harness.Answer(201, "{}")}, 0, []int{1, 1, 1, 1, 2}},
		{"not executed", "Create Customer", []harness.Reply{{}, harness.Answer(502, `{"error":{"code":"UPSTREAM_ERROR","accepted":true,"forwarded":false}}`), harness.Answer(201, "{}")}, 0, []int{1, 1, 2}},
		{"refused at first", "Create Customer", []harness.Reply{harness.Answer(403, `{"error":{"code":"FORBIDDEN","accepted":false}}`), harness.Answer(201, "{}")}, 0, []int{1, 2}},
		{"refused after it was perhaps taken", "Create Customer", []harness.Reply{{}, harness.Answer(403, `{"error":{"code":"FORBIDDEN","accepted":false}}`), harness.Answer(201, "{}")}, 0, []int{1, 1, 1}},
		{"taken", "Create Customer", []harness.Reply{{}, replay, replay}, 0, []int{1, 1, 1}},
		{"taken, and asked for anew", "Create Customer", []harness.Reply{{}, replay, {}, harness.Answer(201, "{}")}, 3, []int{1, 1, 2, 2}},
		{"GET", "List Customers", []harness.Reply{{}, harness.Answer(200, "{}")}, 0, []int{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) { sendAgain(t, dir, c.request, c.answers, c.anew, c.want) })
	}
}

func sendAgain(t *testing.T, dir, request string, answers []harness.Reply, anew int, want []int) {
	server := startIssuer(t)
	var mu sync.Mutex
	number := 0
	server.Does(func(*harness.Received) harness.Reply {
		mu.Lock()
		defer mu.Unlock()
		number++
		return answers[min(number, len(answers))-1]
	})
	data := make([]map[string]string, len(want))
	for i := range data {
		data[i] = map[string]string{}
		if i+1 == anew {
			data[i]["newCall"] = "1"
		}
	}
	text, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "data.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	files := "../../../clients/postman/card-gateway.postman_"
	// It ends with 1 for a request without an answer.
	out, _ := exec.Command(filepath.Join(dir, "node_modules/.bin/newman"), "run", files+"collection.json", "-e", files+"environment.json",
		"--folder", request, "-d", file, "--env-var", "baseUrl=http://"+server.Addr, "--env-var", "keyId=ck_test_1",
		"--env-var", "secret=0123456789abcdef", "--disable-unicode").CombinedOutput()
	arrived := server.Took()
	if len(arrived) != len(want) {
		t.Fatalf("%d requests arrived, want %d:\n%s", len(arrived), len(want), out)
	}
	calls := map[string]int{} // by all that is sent
	for i, r := range arrived {
		sent := r.Line + r.Value("X-Nonce") + r.Value("X-Timestamp") + r.Value("X-Signature") + r.Body
		if calls[sent] == 0 {
			calls[sent] = len(calls) + 1
		}
		if calls[sent] != want[i] {
			t.Errorf("request %d is call %d, want %d:\n%s", i+1, calls[sent], want[i], out)
		}
	}
}
