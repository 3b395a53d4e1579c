package request

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	_ "github.com/card-gateway/card-gateway/commands/cardexplain"
	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/mistakes"
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

// findings returns the names of all details, sorted.
func (e *explained) findings() string {
	var all []string
	for _, d := range e.Error.Details {
		all = append(all, d.Finding+d.Field)
		if d.Message == "" {
			return d.Finding + d.Field + " without a message"
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
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
// the gateway. In a second it explains one signed request of a key, and writes 20
// lines of one kind.
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
		if answer = m.g.Send(m.t, r); answer.Status == http.StatusUnauthorized {
			m.g.Logged("default.log", `"request_id":"`+r.Value("X-Request-Id")+`"`) // an answer to a live key is sent before it is explained
		}
		_, detail, found = remembered(m.t, m.g, r.Value("X-Request-Id"))
		return found
	})
	// Neither the secret nor the correct signature may appear.
	right := *r
	m.canaries["secret"], m.canaries["right signature"] = c.Secret, right.Sign(c.Secret).Value("X-Signature")
	_, told := m.g.Admin(http.MethodGet, "/card-gateway/refusals/"+r.Value("X-Request-Id"), "", "")
	m.canaries.Search(m.t, "the answer", answer.Body)
	m.canaries.Search(m.t, "what is remembered", told)
	m.canaries.Search(m.t, "the log", m.g.ReadFile("default.log"))
	return r, answer, detail
}

// TestMistakesAreNamed makes the mistakes of integrators: the answer to a test key, the
// log line of any key and card-explain, from a curl line alone, find what the table
// says, and nothing else. The answer to a live key is the published one.
func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Global: "lock_after 10000"})
	m := &mistaken{t: t, g: g, pace: time.NewTicker(time.Second / 18), canaries: harness.Canaries{}}
	defer m.pace.Stop()
	answered, offline := 0, 0
	for _, mistake := range mistakes.Table {
		test, live := g.NewKey(harness.Fields{"mode": "test"}), g.NewKey(nil)
		r := mistake.Make(test)
		if mistake.Answer == "" {
			if answer := g.Send(t, r); answer.Status != http.StatusUnauthorized || readExplained(t, answer.Body).findings() != "" {
				t.Errorf("%s: %s", mistake.Name, answer)
			}
		} else {
			var answer *harness.Response
			r, answer, _ = m.try(test, mistake.Make)
			if got := readExplained(t, answer.Body).findings(); got != mistake.Answer {
				t.Errorf("%s: the answer names %q, want %q: %s", mistake.Name, got, mistake.Answer, answer)
			}
			m.logged(live, &mistake)
		}
		line := strings.Replace(curlLine(r), r.Target+"'", strings.TrimSuffix(r.Target+"#"+mistake.Fragment, "#")+"'", 1)
		said := new(explained)
		if err := json.Unmarshal([]byte(cardExplain(t, test, line, mistake.CardExplain() != "", "--json")), &struct{ Findings any }{&said.Error.Details}); err != nil {
			t.Fatal(err)
		}
		if got := said.findings(); got != mistake.CardExplain() {
			t.Errorf("%s: card-explain names %q, want %q", mistake.Name, got, mistake.CardExplain())
		}
		if mistakes.Named(mistake.Answer) {
			answered++
		}
		if mistakes.Named(mistake.CardExplain()) {
			offline++
		}
	}
	t.Logf("of %d mistakes the answer names %d, and card-explain %d", len(mistakes.Table), answered, offline)
	if all := len(mistakes.Table); all < 79 || answered*79 < 70*all || offline*79 < 72*all {
		t.Errorf("of %d mistakes the answer names %d, and card-explain %d; want 70 and 72 of 79", all, answered, offline)
	}
}

// logged makes a mistake with a live key: the log names it, and the answer does not.
func (m *mistaken) logged(live harness.Credentials, mistake *mistakes.Mistake) {
	m.t.Helper()
	r, answer, detail := m.try(live, mistake.Make)
	id := r.Value("X-Request-Id")
	if e, _, _ := remembered(m.t, m.g, id); e.findings() != mistake.Answer || detail == "" {
		m.t.Errorf("%s: the log has %q, and the gateway remembers %s", mistake.Name, detail, e.findings())
	}
	m.g.Logged("default.log", `"request_id":"`+id+`"`, `"detail":`+harness.JSONText(m.t, detail))
	if readExplained(m.t, answer.Body).findings() != "" || strings.Contains(answer.Body, "string_to_sign") {
		m.t.Errorf("%s: a live key is answered %s", mistake.Name, answer)
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

// cardExplain returns the output of the command for a captured request. It fails if
// there is a mistake, and only then.
func cardExplain(t *testing.T, c harness.Credentials, captured string, mistaken bool, args ...string) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(c.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := new(cobra.Command)
	caddycmd.Commands()["card-explain"].CobraFunc(cmd)
	var stdout, stderr strings.Builder
	cmd.SetIn(strings.NewReader(captured))
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	cmd.SetArgs(append(args, "--secret-file", secret))
	cmd.SilenceUsage = true
	if err := cmd.Execute(); (err != nil) != mistaken || stderr.Len() > 0 {
		t.Errorf("card-explain: %v\n%s\nof\n%s", err, stderr.String(), captured)
	}
	if c.Secret != "" && strings.Contains(stdout.String(), c.Secret) {
		t.Errorf("card-explain shows the secret:\n%s", stdout.String())
	}
	return stdout.String()
}
