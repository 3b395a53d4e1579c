package auth_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

const vectorDir = "../tests/vectors"

// The fixture of the vectors; their README describes it and the format.
const (
	fixtureID     = "ak_test_1"
	fixtureSecret = "test_secret_0123456789abcdef"
	fixtureWindow = 300 * time.Second
	lockAfter     = 50
)

var fixtureNow = time.Unix(1750000000, 0)

type vector struct {
	Name         string              `json:"name"`
	Method       string              `json:"method"`
	Target       string              `json:"target"`
	TargetBase64 []byte              `json:"target_base64"`
	Headers      map[string][]string `json:"headers"`
	Body         string              `json:"body"`
	BodyBase64   []byte              `json:"body_base64"`
	ClientIP     *string             `json:"client_ip"`
	Key          vectorKey           `json:"key"`
	State        vectorState         `json:"state"`
	Unsendable   bool                `json:"unsendable"`
	Expect       struct {
		Reason         string `json:"reason"`
		Counts         bool   `json:"counts"`
		Operation      string `json:"operation"`
		UpstreamTarget string `json:"upstream_target"`
	} `json:"expect"`
}

type vectorKey struct {
	Scopes     []string   `json:"scopes"`
	AllowedIPs []string   `json:"allowed_ips"`
	Disabled   bool       `json:"disabled"`
	ExpiresAt  time.Time  `json:"expires_at"`
	Lock       *auth.Lock `json:"lock"`
	Secrets    []struct {
		Text      string    `json:"text"`
		ExpiresAt time.Time `json:"expires_at"`
	} `json:"secrets"`
}

type vectorState struct {
	Failures       int      `json:"failures"`
	Nonces         []string `json:"nonces"`
	OtherKeyNonces []string `json:"other_key_nonces"`
}

func (v *vector) target() string {
	if v.TargetBase64 != nil {
		return string(v.TargetBase64)
	}
	return v.Target
}

func (v *vector) body() []byte {
	if v.BodyBase64 != nil {
		return v.BodyBase64
	}
	return []byte(v.Body)
}

func (v *vector) header() http.Header {
	h := make(http.Header)
	for name, values := range v.Headers {
		for _, value := range values {
			h.Add(name, value)
		}
	}
	return h
}

func (v *vector) client(t *testing.T) netip.Addr {
	t.Helper()
	if v.ClientIP == nil {
		return netip.MustParseAddr("203.0.113.7")
	}
	if *v.ClientIP == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(*v.ClientIP)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// key returns the key that the id names.
func (v *vector) key(t *testing.T, id string) *auth.Key {
	t.Helper()
	if id != fixtureID {
		return nil
	}
	k := &auth.Key{ID: id, Disabled: v.Key.Disabled, ExpiresAt: v.Key.ExpiresAt, Lock: v.Key.Lock}
	scopes := v.Key.Scopes
	if scopes == nil {
		scopes = []string{"*"}
	}
	var err error
	if k.Scopes, err = auth.ParseScopes(scopes); err != nil {
		t.Fatal(err)
	}
	if k.AllowedIPs, err = auth.ParseAllowedIPs(v.Key.AllowedIPs); err != nil {
		t.Fatal(err)
	}
	for i, s := range v.Key.Secrets {
		k.Secrets = append(k.Secrets, auth.NewSecret(len(v.Key.Secrets)-i, s.Text, s.ExpiresAt))
	}
	if k.Secrets == nil {
		k.Secrets = []*auth.Secret{auth.NewSecret(1, fixtureSecret, time.Time{})}
	}
	return k
}

// answer is the gateway's answer, by the published order of the rules. The
// package under test decides all rules except 5 and 8. The vector's state
// decides those.
type answer struct {
	reason    auth.Reason
	counts    bool
	operation string
	upstream  string
}

func (v *vector) answer(t *testing.T, table *auth.Table) answer {
	t.Helper()
	target, refusal := auth.ParseTarget(v.target())
	if refusal != nil {
		return answer{reason: refusal.Reason}
	}
	if refusal := auth.CheckMethod(v.Method); refusal != nil {
		return answer{reason: refusal.Reason}
	}
	op, scope, refusal := table.Match(v.Method, target.Path)
	if refusal != nil {
		return answer{reason: refusal.Reason}
	}
	a := answer{operation: op.Name, upstream: auth.UpstreamTarget(target)}
	credentials, refusal := auth.ParseCredentials(v.header())
	if refusal != nil {
		a.reason = refusal.Reason
		return a
	}
	r := &auth.Request{Method: v.Method, Target: target.Raw, Credentials: credentials, Client: v.client(t), Scope: scope}
	failed := auth.Judge(r, v.key(t, credentials.KeyID), fixtureWindow, fixtureNow).Failed
	if v.State.Failures >= lockAfter {
		failed |= auth.RuleLock
	}
	if slices.Contains(v.State.Nonces, credentials.Nonce) {
		failed |= auth.RuleNonce
	}
	if auth.BodyHash(v.body()) != credentials.BodyHash {
		failed |= auth.RuleBodyHash
	}
	a.reason = failed.First()
	a.counts = auth.Counts(a.reason, failed, 0)
	return a
}

func readVectorFile(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func newTable(t testing.TB, defs ...auth.OperationDef) *auth.Table {
	t.Helper()
	table, err := auth.NewTable(defs)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestVectors(t *testing.T) {
	table := newTable(t)
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors in %s: %v", vectorDir, err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		var content struct {
			Requests []vector `json:"requests"`
		}
		readVectorFile(t, name, &content)
		for i := range content.Requests {
			v := &content.Requests[i]
			t.Run(name+"/"+v.Name, func(t *testing.T) {
				checkAnswer(t, v, v.answer(t, table))
			})
		}
	}
}

func checkAnswer(t *testing.T, v *vector, got answer) {
	t.Helper()
	want := v.Expect
	if got.reason.String() != want.Reason || got.counts != want.Counts {
		t.Errorf("got %v, counts %v; want %s, counts %v", got.reason, got.counts, want.Reason, want.Counts)
	}
	if want.Operation != "" && got.operation != want.Operation {
		t.Errorf("operation %s, want %s", got.operation, want.Operation)
	}
	upstream := want.UpstreamTarget
	if upstream == "" {
		upstream = v.target()
	}
	if got.reason == auth.Accepted && got.upstream != upstream {
		t.Errorf("upstream target %q, want %q", got.upstream, upstream)
	}
}

// TestCombinations breaks every subset of the rules of a good request.
func TestCombinations(t *testing.T) {
	var content struct {
		Base   json.RawMessage            `json:"base"`
		Breaks map[string]json.RawMessage `json:"breaks"`
	}
	readVectorFile(t, "combinations.json", &content)
	rules := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "12"}
	if len(content.Breaks) != len(rules) {
		t.Fatalf("%d breaks, want one for each of %v", len(content.Breaks), rules)
	}
	table := newTable(t)
	for subset := range 1 << len(rules) {
		var v vector
		if err := json.Unmarshal(content.Base, &v); err != nil {
			t.Fatal(err)
		}
		want, broken := "accepted", []string{}
		for i, rule := range rules {
			if subset>>i&1 == 0 {
				continue
			}
			var b struct {
				Reason string `json:"reason"`
			}
			if err := json.Unmarshal(content.Breaks[rule], &b); err != nil {
				t.Fatal(err)
			}
			// Decoding onto the request merges objects and replaces the rest.
			if err := json.Unmarshal(content.Breaks[rule], &v); err != nil {
				t.Fatal(err)
			}
			if len(broken) == 0 {
				want = b.Reason
			}
			broken = append(broken, rule)
		}
		if got := v.answer(t, table).reason.String(); got != want {
			t.Errorf("rules %v are broken: got %s, want %s", broken, got, want)
		}
	}
}

func TestWhitelistVectors(t *testing.T) {
	var content struct {
		Lists []struct {
			Given []string `json:"given"`
			Shown []string `json:"shown"`
		} `json:"lists"`
		Refused [][]string `json:"refused"`
	}
	readVectorFile(t, "whitelists.json", &content)
	for _, list := range content.Lists {
		got, err := auth.ParseAllowedIPs(list.Given)
		if err != nil {
			t.Errorf("%q: %v", list.Given, err)
			continue
		}
		var shown []string
		for _, p := range got {
			shown = append(shown, p.String())
		}
		if !slices.Equal(shown, list.Shown) || (got == nil) != (list.Given == nil) {
			t.Errorf("%q: shown as %q, want %q", list.Given, shown, list.Shown)
		}
	}
	for _, list := range content.Refused {
		if got, err := auth.ParseAllowedIPs(list); err == nil {
			t.Errorf("%q: accepted as %v", list, got)
		}
	}
}
