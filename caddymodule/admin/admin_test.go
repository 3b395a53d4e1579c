package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/version"

	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/keys"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/time/rate"

	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/tests/adminserver"
)

// adminServer serves the key API as Caddy's admin endpoint does.
type adminServer struct {
	*httptest.Server
	t       testing.TB
	keys    *keys.Service
	changes *[]keys.Change
}

func newAdminServer(t testing.TB) *adminServer {
	t.Helper()
	service, changes := adminserver.Keys(t)
	s := &adminServer{t: t, keys: service, changes: changes}
	gateway := gatewayForTest(service, changes, &adminapi.State{Ready: true})
	s.Server = adminserver.Serve(t, (&API{Gateway: func() (*Gateway, error) { return gateway, nil }}).Routes())
	return s
}

// gatewayForTest returns a gateway with only a key service.
func gatewayForTest(service *keys.Service, changes *[]keys.Change, state *adminapi.State) *Gateway {
	state.Bodies = adminapi.BodyMemory{Bytes: 7, Limit: 9, Holders: []held.KeyHolder{{Key: "ck_test_a", Bytes: 7}}}
	return &Gateway{
		Keys: service, Tokens: tokensForTest,
		State:       func(context.Context) adminapi.State { return *state },
		AuditCall:   func(c keys.Change) { *changes = append(*changes, c) },
		LoadRefused: func(error) {},
		OpenStore:   func(json.RawMessage) (store.Backend, error) { return nil, errors.New("no such store") },
		Drain: func(until *time.Time) {
			state.Drained, state.DrainedUntil = until != nil, nil
			if until != nil && !until.IsZero() {
				state.DrainedUntil = until
			}
		},
		LogEachRequest: func(until time.Time) {
			state.DebugUntil = nil
			if !until.IsZero() {
				state.DebugUntil = &until
			}
		},
		Refusal: func(id string) (adminapi.Refusal, bool) {
			return adminapi.Refusal{RequestID: id, Detail: "remembered"}, id == "r-1"
		},
		Refusals: func(id string, limit int) []adminapi.Refusal {
			return []adminapi.Refusal{{RequestID: "r-1", KeyID: id, Status: limit}}
		},
		Recent: func() adminapi.Recent { return adminapi.Recent{Steps: []adminapi.Step{{Failed: 7}}} },
		Trail: func(id string, limit int) (auditfile.Trail, error) {
			return auditfile.Trail{Path: id, From: uint64(limit)}, nil
		},
		KeyLimits: func(_ context.Context, id string) ([]adminapi.Limit, error) {
			if id == "ck_none" {
				return nil, store.ErrNotFound
			}
			return []adminapi.Limit{{Bucket: "total", Rate: "60/1m", Limit: 60, Remaining: 12, Reset: 1}}, nil
		},
		JWKSet: func() []byte { return []byte("{\"keys\":[]}\n") },
	}
}

// call makes a request and returns the status and the decoded answer.
func (s *adminServer) call(method, path, body string, headers ...string) (int, map[string]any) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tokenForTest)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		s.t.Fatalf("%s %s: %d with %q", method, path, answer.StatusCode, raw)
	}
	return answer.StatusCode, doc
}

const acmeKey = `{"tenant":"acme","scopes":["cards:*"]}`

func (s *adminServer) create() string {
	s.t.Helper()
	status, doc := s.call("POST", "/card-gateway/keys", acmeKey)
	if status != http.StatusCreated {
		s.t.Fatalf("create: %d %v", status, doc)
	}
	return doc["id"].(string)
}

// What a gateway remembers of a refusal is shown by its request id.
func TestAdminShowsRefusals(t *testing.T) {
	c := &adminCall{gateway: gatewayForTest(nil, nil, new(adminapi.State)), id: "r-1"}
	if answer, err := showRefusal(c); err != nil || answer.(adminapi.Refusal).Detail != "remembered" {
		t.Errorf("%+v, %v", answer, err)
	}
	c.id = "r-2"
	var answered adminapi.Error
	if _, err := showRefusal(c); !errors.As(err, &answered) || answered.Status != http.StatusNotFound {
		t.Errorf("another id: %v", err)
	}
}

func TestAdminKeyLife(t *testing.T) {
	s := newAdminServer(t)
	status, made := s.call("POST", "/card-gateway/keys", `{"tenant":"acme","scopes":["cards:*"],"mode":"test","limits":{"issue_card":"60/1m burst 10"}}`)
	if status != http.StatusCreated || made["secret"] == nil || made["status"] != "active" || made["mode"] != "test" {
		t.Fatalf("create: %d %v", status, made)
	}
	id := made["id"].(string)
	path := "/card-gateway/keys/" + id
	want := func(status int, doc map[string]any, wantStatus int, field string, value any) {
		t.Helper()
		if status != wantStatus || fmt.Sprint(doc[field]) != fmt.Sprint(value) {
			t.Errorf("%d with %s = %v; want %d with %v", status, field, doc[field], wantStatus, value)
		}
		if _, shown := doc["secret"]; shown && field != "secret" {
			t.Error("the secret is shown again")
		}
	}
	status, doc := s.call("GET", path, "")
	want(status, doc, 200, "tenant", "acme")
	status, doc = s.call("PATCH", path, `{"description":"x"}`)
	want(status, doc, 200, "description", "x")
	status, doc = s.call("POST", path+"/disable", "")
	want(status, doc, 200, "status", "disabled")
	status, doc = s.call("POST", path+"/enable", "")
	want(status, doc, 200, "status", "active")
	status, doc = s.call("POST", path+"/unlock", "")
	want(status, doc, 200, "lock", nil)
	status, doc = s.call("POST", path+"/rotate", `{"overlap":"7d"}`)
	if secrets := doc["secrets"].([]any); status != 200 || doc["secret"] == made["secret"] || len(secrets) != 2 {
		t.Errorf("rotate: %d %v", status, doc)
	}
	status, doc = s.call("POST", path+"/rotate", ``)
	if end := doc["secrets"].([]any)[1].(map[string]any)["expires_at"]; status != 200 || !endsIn(t, end, 24*time.Hour) {
		t.Errorf("rotate without a body: %d, the old secret ends %v", status, end)
	}
	status, doc = s.call("GET", "/card-gateway/keys?tenant=acme&status=active", "")
	if keys := doc["keys"].([]any); status != 200 || len(keys) != 1 || doc["next"] != nil {
		t.Errorf("list: %d %v", status, doc)
	}
	status, doc = s.call("DELETE", path, "")
	want(status, doc, 200, "deleted", true)
	status, doc = s.call("GET", path, "")
	want(status, doc, 404, "error", "no such key")
}

// endsIn reports whether a time in JSON is about d from now.
func endsIn(t *testing.T, value any, d time.Duration) bool {
	t.Helper()
	end, err := time.Parse(time.RFC3339, fmt.Sprint(value))
	if err != nil {
		t.Fatal(err)
	}
	left := time.Until(end)
	return left > d-time.Minute && left <= d
}

func TestAdminRefusals(t *testing.T) {
	s := newAdminServer(t)
	id := s.create()
	path := "/card-gateway/keys/" + id
	if status, doc := s.call("POST", "/card-gateway/keys/import", `{"id":"old","secret":"0123456789abcdef","tenant":"acme","scopes":["*"]}`); status != 201 || doc["secret"] != nil {
		t.Fatalf("import: %d %v", status, doc)
	}
	tests := []struct {
		method, path, body string
		status             int
		want               string // in the error
	}{
		{"POST", "/card-gateway/keys", `{"tenant":"acme"}`, 422, "scopes: at least one must be given"},
		{"POST", "/card-gateway/keys", `{"tenant":"acme","scopes":["*"],"colour":"red"}`, 422, "colour: unknown field"},
		{"POST", "/card-gateway/keys", `{"tenant":"acme","scopes":["*"],"secret":"mine"}`, 422, "secret: unknown field"},
		{"POST", "/card-gateway/keys", `{"tenant":7}`, 422, "tenant: a JSON number does not fit here"},
		{"POST", "/card-gateway/keys", ``, 400, "malformed JSON"},
		{"POST", "/card-gateway/keys", `{"tenant":"a","tenant":"b"}`, 400, "malformed JSON"},
		{"POST", "/card-gateway/keys", `{"description":"` + strings.Repeat("x", maxAdminBody) + `"}`, 413, "over"},
		{"POST", "/card-gateway/keys/import", `{"id":"new","secret":"short","tenant":"acme","scopes":["*"]}`, 422, "secret: want at least 16 bytes"},
		{"POST", "/card-gateway/keys/import", `{"id":"new","secret":"0123456789abcdef","tenant":"acme","scopes":["*"]}`, 409, "in use under another key id"},
		{"POST", "/card-gateway/keys/import", `{"id":"old","secret":"0123456789abcdeg","tenant":"acme","scopes":["*"]}`, 409, "exists already"},
		{"GET", "/card-gateway/keys/nobody", ``, 404, "no such key"},
		{"GET", "/card-gateway/keys/a%2Fb", ``, 404, "no such key"},
		{"POST", "/card-gateway/keys/nobody/disable", ``, 404, "no such key"},
		{"DELETE", "/card-gateway/keys/nobody", ``, 404, "no such key"},
		{"PATCH", path, `{"id":"x"}`, 422, "id: cannot be changed"},
		{"PATCH", path, `{"scopes":[]}`, 422, "scopes"},
		{"PATCH", path, `[]`, 400, "malformed JSON"},
		{"POST", path + "/rotate", `{"overlap":"soon"}`, 422, "overlap: want a duration"},
		{"POST", path + "/rotate", `{"overlap":"91d"}`, 422, "overlap: want 0 to 90 days"},
		{"POST", path + "/rotate", `{"overlaps":"1h"}`, 422, "overlaps: unknown field"},
		{"GET", "/card-gateway/keys?limit=many", ``, 422, "limit: want a whole number"},
		{"GET", "/card-gateway/keys?limit=0", ``, 422, "limit: want 1 to 500"},
		{"GET", "/card-gateway/keys?status=gone", ``, 422, "status: want one of"},
		{"GET", "/card-gateway/keys?tennant=acme", ``, 422, "tennant: unknown query parameter"},
		{"GET", "/card-gateway/keys?limit=%zz", ``, 400, "cannot be read"},
		{"GET", "/card-gateway/keys?limit=1;cursor=x", ``, 400, "with & between them"},
		{"GET", "/card-gateway/keys?limit=1&limit=2", ``, 422, "limit: is given more than once"},
		{"GET", "/card-gateway/refusals?limit=1&kee=a", ``, 422, "kee: unknown query parameter"},
		{"GET", "/card-gateway/refusals?limit=%zz", ``, 400, "cannot be read"},
		{"GET", "/card-gateway/status?keyz=no", ``, 422, "keyz: unknown query parameter"},
	}
	for _, test := range tests {
		status, doc := s.call(test.method, test.path, test.body)
		if message := fmt.Sprint(doc["error"]); status != test.status || !strings.Contains(message, test.want) || len(doc) != 1 {
			t.Errorf("%s %s %.60s: %d %v; want %d %q", test.method, test.path, test.body, status, doc, test.status, test.want)
		}
	}
}

func TestAdminIfMatch(t *testing.T) {
	s := newAdminServer(t)
	path := "/card-gateway/keys/" + s.create()
	_, doc := s.call("GET", path, "")
	revision := doc["revision"].(string)
	if status, doc := s.call("PATCH", path, `{"description":"x"}`, "If-Match", `"`+revision+`"`); status != 200 {
		t.Fatalf("with the present revision: %d %v", status, doc)
	}
	if status, doc := s.call("PATCH", path, `{"description":"y"}`, "If-Match", `"`+revision+`"`); status != 412 {
		t.Errorf("with an old revision: %d %v", status, doc)
	}
	if status, doc := s.call("DELETE", path, "", "If-Match", `"`+revision+`"`); status != 412 {
		t.Errorf("delete with an old revision: %d %v", status, doc)
	}
}

// The actor is what was authenticated; what the caller says stands beside it.
func TestAdminNamesTheActor(t *testing.T) {
	s := newAdminServer(t)
	path := "/card-gateway/keys/" + s.create()
	s.call("POST", path+"/disable", "", adminapi.ActorHeader, "gateway")
	s.call("POST", path+"/enable", "", adminapi.ActorHeader, strings.Repeat("a", maxActor+1))
	var said []string
	for _, c := range *s.changes {
		said = append(said, c.Actor+"/"+c.Claimed)
	}
	if want := []string{"tester/", "tester/gateway", "tester/" + strings.Repeat("a", maxActor)}; !slices.Equal(said, want) {
		t.Errorf("actors %q, want %q", said, want)
	}
}

// Every call that wanted a change has one line, whatever refused it.
func TestAdminAuditsRefusedChanges(t *testing.T) {
	s := newAdminServer(t)
	path := "/card-gateway/keys/" + s.create()
	viewer := []string{"Authorization", "Bearer " + viewerForTest}
	for _, test := range []struct {
		method, path, body string
		headers            []string
		actor, action      string
		status             int
	}{
		{"POST", "/card-gateway/keys", `{"tenant":"acme"}`, nil, "tester", "create", 422},
		{"POST", "/card-gateway/keys", `{`, nil, "tester", "create", 400},
		{"POST", "/card-gateway/keys", `{"tenant":"` + strings.Repeat("x", maxAdminBody) + `"}`, nil, "tester", "create", 413},
		{"POST", "/card-gateway/keys/import", `{"id":"x"}`, nil, "tester", "import", 422},
		{"POST", "/card-gateway/keys/copy", `{"dir":"x"}`, nil, "tester", "copy", 422},
		{"PATCH", path, `{"colour":1}`, nil, "tester", "update", 422},
		{"PATCH", path, `{}`, []string{"If-Match", `"other"`}, "tester", "update", 412},
		{"POST", path + "/rotate", `{"overlap":"soon"}`, nil, "tester", "rotate", 422},
		{"POST", path + "/rotate", `{"overlap":"91d"}`, nil, "tester", "rotate", 422},
		{"DELETE", "/card-gateway/keys/nobody", ``, nil, "tester", "delete", 404},
		{"POST", path + "/disable", ``, viewer, "watcher", "disable", 403},
		{"POST", path + "/disable", ``, []string{"Authorization", "Bearer x"}, "nobody", "disable", 401},
		{"GET", path, ``, []string{"Authorization", ""}, "nobody", "show", 403},
	} {
		before := len(*s.changes)
		status, _ := s.call(test.method, test.path, test.body, test.headers...)
		lines := (*s.changes)[before:]
		if status != test.status || len(lines) != 1 {
			t.Errorf("%s %s %.40s: %d with %d lines, want %d with one", test.method, test.path, test.body, status, len(lines), test.status)
			continue
		}
		if c := lines[0]; c.Actor != test.actor || c.Action != test.action || adminapi.StatusOf(c.Err) != test.status || c.Fields != nil {
			t.Errorf("%s %s %.40s: audited as %+v", test.method, test.path, test.body, c)
		}
	}
	before := len(*s.changes)
	if s.call("GET", path, ""); len(*s.changes) != before {
		t.Error("a call that only reads has a line")
	}
}

// Strangers cannot drown the record: most of their calls have no line of their
// own, and the next line has their number.
func TestStrangersDoNotDrownTheRecord(t *testing.T) {
	s := newAdminServer(t)
	usual := strangers
	t.Cleanup(func() { strangers = usual })
	strangers = rate.NewLimiter(0, 5)
	skippedLines.Store(0)
	for range 100 {
		s.call("POST", "/card-gateway/keys", acmeKey, "Authorization", "")
	}
	strangers = rate.NewLimiter(0, 1)
	s.call("POST", "/card-gateway/keys", acmeKey, "Authorization", "")
	if lines := *s.changes; len(lines) != 6 || !strings.Contains(lines[5].Err.Error(), "(95 more calls") {
		t.Errorf("101 calls of a stranger have %d lines, the last one %+v", len(lines), lines[len(lines)-1])
	}
}

func TestAdminStatus(t *testing.T) {
	s := newAdminServer(t)
	s.create()
	status, doc := s.call("GET", "/card-gateway/status", "")
	keys, _ := doc["keys"].(map[string]any)
	place, _ := doc["store"].(map[string]any)
	if status != 200 || doc["version"] != version.Current().Version || doc["commit"] != version.Current().Commit || keys["active"] != 1.0 || keys["locked"] != 0.0 || place["ready"] != true || !strings.Contains(fmt.Sprint(doc["bodies"]), "ck_test_a") {
		t.Errorf("%d %v", status, doc)
	}
}

func TestAdminWithoutGateway(t *testing.T) {
	s := &adminServer{Server: adminserver.Serve(t, (&API{Gateway: activeGateway}).Routes()), t: t}
	if status, doc := s.call("GET", "/card-gateway/keys", ""); status != 503 || !strings.Contains(fmt.Sprint(doc["error"]), "no gateway is configured here") {
		t.Errorf("%d %v", status, doc)
	}
}

func TestAdminErrorsOfTheStore(t *testing.T) {
	for err, want := range map[error]int{
		store.ErrUnavailable: 503, errors.New("dial tcp: refused"): 503, store.ErrConflict: 409,
		fmt.Errorf("key x: %w", keyring.ErrDamaged): 500, keyring.ErrMasterKey: 500,
	} {
		var answer caddy.APIError
		if !errors.As(adminError(err), &answer) || answer.HTTPStatus != want {
			t.Errorf("%v: %d, want %d", err, answer.HTTPStatus, want)
		}
	}
}
