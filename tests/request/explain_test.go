package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// explained is the part of a refusal that says what was wrong.
type explained struct {
	Error struct {
		Details []struct{ Field, Finding, Message string }
		Text    string  `json:"string_to_sign"`
		Bytes   *int    `json:"received_bytes"`
		Hash    *string `json:"received_hash"`
	}
}

// names reports whether the details have the finding.
func (e *explained) names(finding string) bool {
	for _, d := range e.Error.Details {
		if (d.Finding == finding || strings.EqualFold(d.Field, finding)) && d.Message != "" {
			return true
		}
	}
	return false
}

func readExplained(t *testing.T, body string) *explained {
	t.Helper()
	e := new(explained)
	if err := json.Unmarshal([]byte(body), e); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return e
}

// remembered returns the findings and the detail that the gateway keeps of a
// refusal.
func remembered(t *testing.T, g *harness.Gateway, requestID string) (e *explained, detail string, found bool) {
	t.Helper()
	status, answer := g.Admin(http.MethodGet, "/card-gateway/refusals/"+requestID, "", "")
	if status != http.StatusOK {
		return nil, "", false
	}
	var entry struct {
		Detail   string
		Findings []struct{ Field, Finding, Message string }
		Text     string `json:"string_to_sign"`
	}
	if err := json.Unmarshal([]byte(answer), &entry); err != nil {
		t.Fatal(err)
	}
	e = new(explained)
	e.Error.Details, e.Error.Text = entry.Findings, entry.Text
	return e, entry.Detail, true
}

// A mistaken is a client that sends mistakes slowly, because of the limits of
// the gateway. In a second it explains one request of a key and 20 in all, and
// writes 20 lines of one kind.
type mistaken struct {
	t        *testing.T
	g        *harness.Gateway
	sent     int
	pace     *time.Ticker
	canaries harness.Canaries
}

// try sends a mistake with a key until it was explained, and returns the
// request, the answer and what is remembered.
func (m *mistaken) try(c harness.Credentials, make func(harness.Credentials) *harness.Request) (r *harness.Request, answer *harness.Response, detail string) {
	m.t.Helper()
	harness.Eventually(m.t, "the refusal was explained", func() (found bool) {
		<-m.pace.C
		m.sent++
		r = make(c).Set("X-Request-Id", fmt.Sprintf("mistake-%d", m.sent)).From(fmt.Sprintf("127.0.1.%d", 1+m.sent%200))
		answer = m.g.Send(m.t, r)
		_, detail, found = remembered(m.t, m.g, r.Value("X-Request-Id"))
		return found
	})
	// Neither the secret nor the correct signature may appear.
	m.canaries["secret"], m.canaries["right signature"] = c.Secret, mac(c.Secret, strings.Join(parts(r), "\n"))
	_, told := m.g.Admin(http.MethodGet, "/card-gateway/refusals/"+r.Value("X-Request-Id"), "", "")
	m.canaries.Search(m.t, "the answer", answer.Body)
	m.canaries.Search(m.t, "what is remembered", told)
	m.canaries.Search(m.t, "the log", m.g.ReadFile("default.log"))
	return r, answer, detail
}

// TestMistakesAreNamed makes the mistakes of integrators: the answer to a test
// key, the log line of any key and card-explain, from a curl line alone, name
// at least nine in ten. The answer to a live key is the published one.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 10000"})
	m := &mistaken{t: t, g: g, pace: time.NewTicker(time.Second / 18), canaries: harness.Canaries{}}
	defer m.pace.Stop()
	missed := map[string][]string{}
	miss := func(who, name string) { missed[who] = append(missed[who], name) }
	for name, mistake := range mistakes {
		test, live := g.NewKey(harness.Fields{"mode": "test"}), g.NewKey(nil)
		r, answer, _ := m.try(test, mistake.make)
		if !readExplained(t, answer.Body).names(mistake.finding) {
			miss("the answer", name+": "+answer.Body)
		}
		if got := cardExplain(t, g, test, curlLine(r)); !strings.Contains(strings.ToLower(got), "\n"+strings.ToLower(mistake.finding)+": ") {
			miss("card-explain", name+": "+got)
		}
		r, answer, detail := m.try(live, mistake.make)
		id := r.Value("X-Request-Id")
		if e, _, _ := remembered(t, g, id); !e.names(mistake.finding) || detail == "" {
			miss("the log", fmt.Sprintf("%s: %q", name, detail))
		}
		g.Logged("default.log", `"request_id":"`+id+`"`, `"detail":`+harness.JSONText(t, detail))
		if n := len(readExplained(t, answer.Body).Error.Details); n > 0 || strings.Contains(answer.Body, "string_to_sign") {
			t.Errorf("%s: a live key is answered %s", name, answer)
		}
	}
	for who, names := range missed {
		t.Logf("%s does not name %d of %d:\n%s", who, len(names), len(mistakes), strings.Join(names, "\n"))
		if len(names)*10 > len(mistakes) {
			t.Errorf("%s does not name nine in ten", who)
		}
	}
	if len(mistakes) < 32 {
		t.Errorf("%d mistakes are made, want 32", len(mistakes))
	}
}

// curlLine writes a request as people paste it.
func curlLine(r *harness.Request) string {
	quote := func(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
	words := []string{"curl --path-as-is -X", r.Method, quote("https://gw.example" + r.Target)}
	for _, line := range r.Headers {
		words = append(words, "\\\n  -H", quote(line))
	}
	if r.Body != "" {
		words = append(words, "\\\n  --data-raw", quote(r.Body))
	}
	return strings.Join(words, " ") + "\n"
}

// cardExplain returns the output of the command for a captured request.
func cardExplain(t *testing.T, g *harness.Gateway, c harness.Credentials, captured string, args ...string) string {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), append([]string{"card-explain"}, args...)...)
	cmd.Dir, cmd.Stdin = g.Dir, strings.NewReader(captured)
	cmd.Env = append(g.Command().Env, "CARD_SECRET="+c.Secret)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || stderr.Len() > 0 {
		t.Errorf("card-explain: %v\n%s\nof\n%s", err, stderr.String(), captured)
	}
	if strings.Contains(stdout.String(), mac(c.Secret, "")) || c.Secret != "" && strings.Contains(stdout.String(), c.Secret) {
		t.Errorf("card-explain shows the secret:\n%s", stdout.String())
	}
	return stdout.String()
}
