package request

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// selfHandlers is what a site has under /gateway/v1/.
func selfHandlers(auth, self string) string {
	return "handle /gateway/v1/* {\ncard_rate_limit\ncard_auth {\n" + auth + "\n}\ncard_self {\n" + self + "\n}\n}\n"
}

// eachStore runs a test on the embedded store and on Redis, with the value for
// the field Store of a site.
func eachStore(t *testing.T, test func(t *testing.T, store string)) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := harness.StartRedis(t)
		test(t, r.Patient())
	})
}

// ownAnswer reads the data of an answer of the gateway itself.
func ownAnswer(t testing.TB, r *harness.Response, data any) {
	t.Helper()
	envelope := struct {
		Data      any       `json:"data"`
		RequestID string    `json:"request_id"`
		Timestamp time.Time `json:"timestamp"`
	}{Data: data}
	if err := json.Unmarshal([]byte(r.Body), &envelope); err != nil || r.Status != http.StatusOK {
		t.Fatalf("answer is %s, want 200 with an envelope (%v)", r, err)
	}
	if id := r.Header.Get("X-Request-Id"); envelope.RequestID != id || id == "" || envelope.Timestamp.IsZero() {
		t.Errorf("the envelope has the request id %q and the timestamp %s; X-Request-Id is %q", envelope.RequestID, envelope.Timestamp, id)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

type ownLimit struct {
	Bucket, Rate            string
	Limit, Remaining, Reset int64
}

type ownKey struct {
	ID, Tenant, Mode string
	Scopes           []string
	CustomerVariant  string    `json:"customer_variant"`
	ExpiresAt        time.Time `json:"expires_at"`
	Operations       []struct {
		Name, Scope string
		Routes      []string
		Limit       ownLimit
	}
	Total   *ownLimit
	Secrets []struct {
		Version    int
		CreatedAt  time.Time `json:"created_at"`
		ExpiresAt  time.Time `json:"expires_at"`
		AgeSeconds int64     `json:"age_seconds"`
		SignedThis bool      `json:"signed_this"`
	}
}

// askKey asks for the caller's key.
func askKey(t testing.TB, g *harness.Gateway, c harness.Credentials) (k ownKey) {
	t.Helper()
	ownAnswer(t, g.Send(t, c.Request("GET", "/gateway/v1/key", "")), &k)
	return k
}

// limit returns the bucket of an operation; the zero value where it is missing.
func (k *ownKey) limit(operation string) ownLimit {
	for _, o := range k.Operations {
		if o.Name == operation {
			return o.Limit
		}
	}
	return ownLimit{}
}

// TestScopePerLine sends to an operation whose lines need several scopes: the
// scope is that of the line, and the bucket is one.
func TestScopePerLine(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Limits: harness.WithLimits, Extra: selfHandlers("", ""),
		Global: "operation hooks GET /api/v1/hooks webhooks:read\noperation hooks POST /api/v1/hooks webhooks:write\n" +
			"operation hooks DELETE /api/v1/hooks/{id} webhooks:write\nlimit hooks 50/1d",
	})
	const path = "/api/v1/hooks"
	reads, writes := g.NewKey(harness.Fields{"scopes": []string{"webhooks:read"}}), g.NewKey(harness.Fields{"scopes": []string{"webhooks:write"}})
	both := g.NewKey(harness.Fields{"scopes": []string{"webhooks:*"}})
	wantLeft(t, g.Send(t, reads.Request(http.MethodGet, path, "")), 50, 49)
	wantLeft(t, g.Send(t, reads.Request(http.MethodHead, path, "")), 50, 48)
	wantLeft(t, g.Send(t, both.Request(http.MethodGet, path, "")), 50, 49)
	wantLeft(t, g.Send(t, both.Request(http.MethodPost, path, "{}")), 50, 48)
	for _, took := range u.Took() {
		if got := took.Value("X-Gateway-Operation"); got != "hooks" {
			t.Errorf("the issuer is told of the operation %q", got)
		}
	}
	for scope, refused := range map[string]*harness.Response{
		"webhooks:write": g.Send(t, reads.Request(http.MethodPost, path, "{}")), "webhooks:read": g.Send(t, writes.Request(http.MethodGet, path, "")),
	} {
		if says := "The operation hooks needs the scope " + scope + " for this method and path"; refused.Status != http.StatusForbidden || !strings.Contains(refused.Body, says) {
			t.Errorf("without %s the answer is %s, want 403 that says %q", scope, refused, says)
		}
	}
	get, change := "webhooks:read GET /api/v1/hooks", "webhooks:write POST /api/v1/hooks, DELETE /api/v1/hooks/{id}"
	for _, c := range []struct {
		key  harness.Credentials
		want []string
	}{{reads, []string{get}}, {writes, []string{change}}, {both, []string{get, change}}} {
		var may []string
		k := askKey(t, g, c.key)
		for _, o := range k.Operations {
			if o.Name == "hooks" {
				may = append(may, o.Scope+" "+strings.Join(o.Routes, ", "))
			}
			if o.Name == "hooks" && o.Limit.Bucket != "hooks" {
				t.Errorf("hooks is charged to %q", o.Limit.Bucket)
			}
		}
		if !slices.Equal(may, c.want) {
			t.Errorf("a key with %q may call %q, want %q", k.Scopes, may, c.want)
		}
	}
}

// TestSelfKey asks what a key is and may, and what is left of its limits.
func TestSelfKey(t *testing.T) { eachStore(t, testSelfKey) }

func testSelfKey(t *testing.T, store string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Store: store, Limits: harness.WithLimits, Extra: selfHandlers("", ""),
		Global: "limit get_card 50/1d\nlimit get_card_balance 70/1d\nlimit total 3000/1d",
	})
	end := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	key := g.NewKey(harness.Fields{
		"tenant": "acme.bank", "scopes": []string{"cards:read"}, "customer_variant": "B", "expires_at": harness.Moment(end),
		"limits": map[string]any{"get_card": "20/1d burst 10", "gateway_echo": map[string]string{"limit": "5/1d", "until": harness.Moment(end)}},
	})
	for range 3 {
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
	u.Took()
	k := askKey(t, g, key)
	if k.ID != key.ID || k.Tenant != "acme.bank" || k.Mode != "live" || !slices.Equal(k.Scopes, []string{"cards:read"}) || k.CustomerVariant != "B" || !k.ExpiresAt.Equal(end) {
		t.Errorf("the key is %+v", k)
	}
	var names []string
	for _, o := range k.Operations {
		names = append(names, o.Name+" "+o.Scope+" "+strings.Join(o.Routes, ", "))
	}
	if want := []string{
		"get_card cards:read GET /api/v1/cards/{cardId}",
		"get_card_balance cards:read GET /api/v1/cards/{cardId}/balance",
		"gateway_key  GET /gateway/v1/key",
		"gateway_echo  POST /gateway/v1/echo",
		"gateway_close  POST /gateway/v1/nonce/close",
	}; !slices.Equal(names, want) {
		t.Errorf("the key may call %q, want %q", names, want)
	}
	for operation, want := range map[string]ownLimit{
		"get_card":         {Bucket: "get_card", Rate: "20/1d burst 10", Limit: 10, Remaining: 7},
		"get_card_balance": {Bucket: "get_card_balance", Rate: "70/1d", Limit: 70, Remaining: 70},
		"gateway_echo":     {Bucket: "gateway_echo", Rate: "5/1d", Limit: 5, Remaining: 5},
		"gateway_key":      {Bucket: "gateway_key", Rate: "600/1m", Limit: 600, Remaining: 599},
	} {
		got := k.limit(operation)
		if got.Reset < time.Now().Add(-time.Hour).Unix() {
			t.Errorf("the bucket of %s is full again at %d", operation, got.Reset)
		}
		if got.Reset = 0; got.Remaining == 600 { // it may have drained again
			got.Remaining = 599
		}
		if got != want {
			t.Errorf("the limit of %s is %+v, want %+v", operation, got, want)
		}
	}
	if k.Total == nil || k.Total.Limit != 3000 || k.Total.Remaining != 2996 {
		t.Errorf("the total is %+v, want 2996 of 3000 left", k.Total)
	}
	if len(k.Secrets) != 1 || k.Secrets[0].Version != 1 || !k.Secrets[0].SignedThis || k.Secrets[0].AgeSeconds < 0 || !k.Secrets[0].ExpiresAt.IsZero() {
		t.Errorf("the secrets are %+v", k.Secrets)
	}

	// HEAD is GET without the body, and a slash at the end makes no difference.
	if got := g.Send(t, key.Request("HEAD", "/gateway/v1/key/", "")); got.Status != http.StatusOK || got.Body != "" {
		t.Errorf("HEAD is answered %s", got)
	}
	// After a rotation both secrets are shown, and which of them signed.
	newer := harness.Credentials{ID: key.ID, Secret: g.Do(key, "rotate").Secret}
	for i, c := range []harness.Credentials{newer, key} {
		k := askKey(t, g, c)
		if len(k.Secrets) != 2 || k.Secrets[0].Version != 2 || !k.Secrets[i].SignedThis || k.Secrets[1-i].SignedThis || k.Secrets[1].ExpiresAt.IsZero() {
			t.Errorf("the secrets are %+v", k.Secrets)
		}
	}
	// A key with every scope may also call what no operation names; no total.
	all := askKey(t, g, g.NewKey(nil))
	if other := all.limit("other"); other.Limit != 120 || all.Total == nil {
		t.Errorf("with the scope * the operation other has the limit %+v", other)
	}
	u.None(t)
}

// TestSelfEcho sends what a new integrator would send first.
func TestSelfEcho(t *testing.T) { eachStore(t, testSelfEcho) }

func testSelfEcho(t *testing.T, store string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{
		Upstream: u.Addr, Store: store, Extra: selfHandlers("max_body 64KiB", ""), Limits: harness.WithLimits, Global: "limit gateway_echo 4/1d\nlimit total 100/1d",
	})
	key := g.NewKey(harness.Fields{"scopes": []string{"products:read"}})
	body := "{\"ü\": \"<&>\"}\r\n\x00\xff"
	sent := key.Request("POST", "/gateway/v1/echo?b=%20+&a=%c3%A9&", body)
	answer := g.Send(t, sent)
	var view struct {
		Operation     string
		KeyID         string `json:"key_id"`
		SecretVersion int    `json:"secret_version"`
		StringToSign  string `json:"string_to_sign"`
		BodyBytes     int    `json:"body_bytes"`
		BodyHash      string `json:"body_hash"`
		ClientIP      string `json:"client_ip"`
		Limits        []ownLimit
	}
	ownAnswer(t, answer, &view)
	signed := strings.Join([]string{"POST", sent.Target, sent.Value("X-Timestamp"), sent.Value("X-Nonce"), harness.BodyHash(body)}, "\n")
	if view.Operation != "gateway_echo" || view.KeyID != key.ID || view.SecretVersion != 1 || view.StringToSign != signed ||
		view.BodyBytes != len(body) || view.BodyHash != harness.BodyHash(body) || view.ClientIP != "127.0.0.1" {
		t.Errorf("the gateway's view is %+v, want the string to sign %q", view, signed)
	}
	if len(view.Limits) != 2 || view.Limits[0].Bucket != "gateway_echo" || view.Limits[0].Remaining != 3 || view.Limits[1].Bucket != "total" || view.Limits[1].Remaining != 99 {
		t.Errorf("the limits charged are %+v", view.Limits)
	}
	wantLeft(t, answer, 4, 3)

	// It is judged, settled and counted as any other request.
	empty := key.Request("POST", "/gateway/v1/echo", "")
	for _, c := range []struct {
		request *harness.Request
		message string
	}{
		{sent, harness.Replayed},
		{key.Request("POST", "/gateway/v1/echo", "{}").Forge(), harness.WrongSignature},
		{key.Request("POST", "/gateway/v1/echo", "{}").Set("X-Body-Hash", harness.BodyHash("")).Sign(key.Secret), harness.BodyMismatch},
		{&harness.Request{Method: "POST", Target: "/gateway/v1/echo"}, harness.MissingHeaders},
		{harness.Credentials{ID: "nobody", Secret: "x"}.Request("POST", "/gateway/v1/echo", ""), harness.UnknownKey},
	} {
		harness.WantUnauthorized(t, g.Send(t, c.request), c.message)
	}
	g.WantFailures(t, key, 2)
	harness.WantRefused(t, g.Send(t, key.Request("POST", "/gateway/v1/echo", strings.Repeat("x", 64<<10+1))), http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	harness.WantRefused(t, g.Send(t, key.Request("POST", "/gateway/v1//echo", "")), http.StatusBadRequest, "BAD_REQUEST")
	harness.WantRefused(t, g.Send(t, key.Request("GET", "/gateway/v1/echo", "")), http.StatusForbidden, "FORBIDDEN")
	harness.WantRefused(t, g.Send(t, g.NewKey(nil).Request("GET", "/gateway/v1/echo", "")), http.StatusNotFound, "NOT_FOUND")
	for range 3 {
		harness.WantAccepted(t, g.Send(t, key.Request("POST", "/gateway/v1/echo", "x")))
	}
	g.WantFailures(t, key, 0)
	limited(t, g.Send(t, empty))
	u.None(t)

	m := g.Scrape(t)
	for series, want := range map[string]float64{
		`card_gateway_requests_total{operation="gateway_echo",outcome="accepted"}`:             4,
		`card_gateway_requests_total{operation="gateway_echo",outcome="replayed_nonce"}`:       1,
		`card_gateway_requests_total{operation="gateway_echo",outcome="rate_limited"}`:         1,
		`card_gateway_requests_total{operation="gateway_key",outcome="accepted"}`:              0,
		`card_gateway_rate_limit_decisions_total{decision="refused",operation="gateway_echo"}`: 1,
	} {
		if got, found := m[series]; !found || got != want {
			t.Errorf("%s is %v (%v), want %v", series, got, found, want)
		}
	}
	for series := range m {
		if strings.HasPrefix(series, "card_gateway_upstream_") && strings.Contains(series, `operation="gateway_`) {
			t.Errorf("there is %s, although no issuer is asked", series)
		}
	}
}

// TestSelfIsClosedBesideAnIssuer mounts card_self where a handler that sends
// requests is behind the same card_auth, and not at all. A key without the scope
// * gets nothing by these paths then, and the issuer sees nothing.
func TestSelfIsClosedBesideAnIssuer(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	to := (&harness.Site{Upstream: u.Addr}).ToIssuer()
	for name, inside := range map[string]string{
		"beside": "@self path /gateway/v1/key\ncard_self @self {\nrotate yes\n}\n" + to,
		"none":   to,
	} {
		t.Run(name, func(t *testing.T) {
			g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Extra: "handle /gateway/v1/* {\ncard_auth\n" + inside + "\n}\n"})
			few, all := g.NewKey(harness.Fields{"scopes": []string{"cards:read", "customers:*"}}), g.NewKey(nil)
			for _, own := range []string{"GET /gateway/v1/key", "POST /gateway/v1/echo", "POST /gateway/v1/key/rotate"} {
				method, path, _ := strings.Cut(own, " ")
				harness.WantRefused(t, g.Send(t, few.Request(method, path, "")), http.StatusForbidden, "FORBIDDEN")
			}
			u.None(t)
			harness.WantAccepted(t, g.Send(t, all.Request("POST", "/gateway/v1/echo", "")))
			if got := u.One(t); got.Value("X-Gateway-Operation") != "other" {
				t.Errorf("the issuer is told of the operation %q", got.Value("X-Gateway-Operation"))
			}
			if name == "beside" {
				g.Logged("default.log", `"level":"warn"`, "card_self is closed")
			}
		})
	}
}

// TestSelfInDryRun lets nobody in whom card_auth would have refused: there is no
// issuer that protects itself.
func TestSelfInDryRun(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Extra: selfHandlers("dry_run", "rotate yes"), Limits: harness.WithLimits, Global: "limit gateway_key 1/1d"})
	key, used := g.NewKey(nil), g.NewKey(nil)
	for _, own := range []string{"GET /gateway/v1/key", "POST /gateway/v1/echo", "POST /gateway/v1/key/rotate"} {
		method, path, _ := strings.Cut(own, " ")
		harness.WantUnauthorized(t, g.Send(t, &harness.Request{Method: method, Target: path}), harness.MissingHeaders)
		harness.WantUnauthorized(t, g.Send(t, key.Request(method, path, "").Forge()), harness.WrongSignature)
		once := used.Request(method, path, "")
		harness.WantAccepted(t, g.Send(t, once))
		harness.WantUnauthorized(t, g.Send(t, once), harness.Replayed)
	}
	limited(t, g.Send(t, used.Request("GET", "/gateway/v1/key", "")))
	if k := askKey(t, g, key); len(k.Secrets) != 1 {
		t.Errorf("the key was rotated: %+v", k.Secrets)
	}
}
