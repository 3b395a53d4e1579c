package redis

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A document is a key's record, as JSON.
type document map[string]any

// forgeries are what somebody who writes to the store may want to grant, by the
// field that the gateway must name.
func forgeries(other document) map[string]func(d document) {
	set := func(field string, value any) func(document) { return func(d document) { d[field] = value } }
	return map[string]func(d document){
		"tenant":           set("tenant", "victim"),
		"description":      set("description", "x"),
		"scopes":           set("scopes", []string{"*"}),
		"allowed_ips":      set("allowed_ips", nil),
		"expires_at":       func(d document) { delete(d, "expires_at") },
		"disabled":         set("disabled", true),
		"limits":           set("limits", map[string]string{"default": "9999/1s"}),
		"customer_variant": set("customer_variant", "C"),
		"debug_until":      set("debug_until", "2026-01-01T00:00:00Z"),
		"imported":         set("imported", true),
		"stamped_after":    set("stamped_after", "2026-01-01T00:00:00Z"),
		"created_at":       set("created_at", "2026-01-01T00:00:00Z"),
		"secrets":          set("secrets", other["secrets"]),
		"seal":             func(d document) { delete(d, "seal"); d["scopes"] = []string{"*"} },
	}
}

// granted are the fields of a key that is forged later.
func granted() harness.Fields {
	return harness.Fields{
		"scopes": []string{"cards:read"}, "allowed_ips": []string{"127.0.0.0/8", "::1"}, "expires_at": "2099-01-01T00:00:00Z",
		"limits": harness.Fields{"default": "100/1m"},
	}
}

// wantForged requires that requests are answered with 503, and that the log has an
// error line with the key and the field.
func wantForged(t testing.TB, g *harness.Gateway, key harness.Credentials, field string) {
	t.Helper()
	harness.WantRefused(t, g.Send(t, key.Get()), http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE")
	g.Logged("default.log", `"level":"error"`, `"key_id":"`+key.ID+`"`, `"field":"`+field+`"`, "changed by something other than a gateway")
	if _, view := g.Admin(http.MethodGet, "/card-gateway/keys/"+key.ID, "", ""); !strings.Contains(view, `"state":"refused","field":"`+field+`"`) {
		t.Errorf("%s: shown as %s", field, view)
	}
}

// TestForgedInRedis forges the records of keys in Redis, each another field. All are
// refused when they are loaded and after a restart; the untouched key works. The
// configuration says nothing of seals.
func TestForgedInRedis(t *testing.T) {
	t.Parallel()
	u, r := harness.StartUpstream(t), harness.StartRedis(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: r.Patient()})
	untouched := g.NewKey(granted())
	read := func(c harness.Credentials) (d document) {
		text, _ := r.Do("hget", "cg:{"+c.ID+"}:k", "doc").(string)
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		return d
	}
	forged := make(map[string]harness.Credentials)
	for field, forge := range forgeries(read(untouched)) {
		key := g.NewKey(granted())
		harness.WantAccepted(t, g.Send(t, key.Get()))
		d := read(key)
		forge(d)
		r.Do("hset", "cg:{"+key.ID+"}:k", "doc", harness.JSONText(t, d), "rev", rand.Text())
		wantForged(t, g, key, field)
		forged[field] = key
	}
	if out, err := cardKeys(g, "list"); err != nil || strings.Count(out, "forged") != len(forged) {
		t.Errorf("%v: %s", err, out)
	}
	for field, key := range forged {
		if out, err := cardKeys(g, "show", key.ID); err != nil || !regexp.MustCompile(`(?m)^status +forged$`).MatchString(out) {
			t.Errorf("%s: %v: %s; want its record refused", field, err, out)
		}
	}
	harness.WantAccepted(t, g.Send(t, untouched.Get()))
	g.Stop()
	g.WriteFile("default.log", "")
	g.Start()
	for field, key := range forged {
		wantForged(t, g, key, field)
	}
	harness.WantAccepted(t, g.Send(t, untouched.Get()))
	if counted := g.Scrape(t).Of("card_gateway_forged_records_total"); counted.Sum() < float64(len(forged)) {
		t.Errorf("counted %v", counted)
	}
	approveForged(t, g, forged["tenant"])
}

// approveForged seals a forged key by its name, after which it works, and no other.
func approveForged(t testing.TB, g *harness.Gateway, key harness.Credentials) {
	t.Helper()
	if out, err := cardKeys(g, "seal", "--yes"); err == nil || !strings.Contains(out, "sealed 0 keys") {
		t.Errorf("approved what was forged: %v, %s", err, out)
	}
	if out, err := cardKeys(g, "seal", key.ID, "--yes"); err == nil || !strings.Contains(out, "sealed 1 keys") || !strings.Contains(out, "victim") {
		t.Errorf("%v: %s; want the forged tenant shown, and an error for the other keys", err, out)
	}
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestForgedInTheKeyFile is the same for the embedded store, whose file is changed
// while the gateway is stopped.
func TestForgedInTheKeyFile(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	untouched := g.NewKey(granted())
	fields := forgeries(document{})
	forged := make(map[string]harness.Credentials)
	for field := range fields {
		forged[field] = g.NewKey(granted())
	}
	g.Stop()
	editKeyFile(t, g, func(meta map[string]string, docs map[string]document) {
		for field, forge := range forgeries(docs[untouched.ID]) {
			forge(docs[forged[field].ID])
			if field == "seal" {
				delete(meta, "seal:"+forged[field].ID)
			}
		}
	})
	for range 2 {
		g.WriteFile("default.log", "")
		g.Start()
		for field, key := range forged {
			wantForged(t, g, key, field)
		}
		harness.WantAccepted(t, g.Send(t, untouched.Get()))
		g.Stop()
	}
}

// editKeyFile changes the key file, with the checksum that it then needs.
func editKeyFile(t testing.TB, g *harness.Gateway, edit func(meta map[string]string, docs map[string]document)) {
	t.Helper()
	start, data, ok := strings.Cut(g.ReadFile("data/keys.json"), `","data":`)
	if !ok {
		t.Fatal("not a key file")
	}
	var content struct {
		Meta map[string]string `json:"meta"`
		Keys []document        `json:"keys"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSuffix(data, "}\n")), &content); err != nil {
		t.Fatal(err)
	}
	docs := make(map[string]document)
	for _, d := range content.Keys {
		docs[d["id"].(string)] = d
	}
	edit(content.Meta, docs)
	slices.SortFunc(content.Keys, func(a, b document) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	data = harness.JSONText(t, content)
	sum := sha256.Sum256([]byte(data))
	g.WriteFile("data/keys.json", start[:len(start)-64]+hex.EncodeToString(sum[:])+`","data":`+data+"}\n")
}

// TestOlderRecordOfAnotherGatewaysChange: a gateway refuses an older record of a key that
// it has never been asked for, once it has read what another gateway has changed.
func TestOlderRecordOfAnotherGatewaysChange(t *testing.T) {
	t.Parallel()
	u, r := harness.StartUpstream(t), harness.StartRedis(t)
	a, b := startPair(t, r, harness.Site{Upstream: u.Addr})
	key := a.NewKey(granted())
	read := func() float64 {
		return b.Scrape(t)[`card_gateway_store_seconds_count{call="get",result="ok"}`]
	}
	harness.Eventually(t, "the other gateway reads the new key", func() bool { return read() > 0 })
	name := "cg:{" + key.ID + "}:k"
	old, before := r.Do("hget", name, "doc"), read()
	if status, text := a.Admin(http.MethodPost, "/card-gateway/keys/"+key.ID+"/disable", "", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	harness.Eventually(t, "the other gateway reads the changed key", func() bool { return read() > before })
	r.Do("hset", name, "doc", old, "rev", rand.Text())
	wantForged(t, b, key, "document_version")
}
