package request

import (
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

const (
	rotatePath = "/gateway/v1/key/rotate"
	oldSecret  = "Rotate with the newest secret of the key; this request was signed with an older one"
	twoSecrets = "The key has two live secrets already; rotate again when the older one has ended"
)

func rotation(c harness.Credentials) *harness.Request { return c.Request("POST", rotatePath, "") }

// rotated returns the credentials that an answer holds.
func rotated(t testing.TB, c harness.Credentials, r *harness.Response) harness.Credentials {
	t.Helper()
	var made struct {
		Secret  string
		Secrets []struct{ Version int }
	}
	ownAnswer(t, r, &made)
	if len(made.Secret) < 52 || made.Secret == c.Secret || len(made.Secrets) != 2 {
		t.Errorf("a rotation is answered %+v", made)
	}
	return harness.Knows(harness.Credentials{ID: c.ID, Secret: made.Secret})
}

// wantConflict checks that a rotation was refused, and why.
func wantConflict(t testing.TB, r *harness.Response, message string) {
	t.Helper()
	harness.WantRefused(t, r, http.StatusConflict, "CONFLICT")
	if !strings.Contains(r.Body, `"`+message+`"`) {
		t.Errorf("answer is %s, want %q", r, message)
	}
}

// TestSelfRotate rotates by the holder of a key, and looks for the secrets in
// everything that the gateway writes.
func TestSelfRotate(t *testing.T) { eachStore(t, testSelfRotate) }

func testSelfRotate(t *testing.T, store string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: store, Extra: selfHandlers("", "rotate yes overlap 2h")})
	key := g.NewKey(harness.Fields{"scopes": []string{"products:read", "cards:read"}})
	if k := askKey(t, g, key); k.limit("gateway_rotate").Limit == 0 {
		t.Error("the key is not told that it may be rotated")
	}
	harness.WantRefused(t, g.Send(t, key.Request("POST", rotatePath, `{"overlap":"0"}`)), http.StatusUnprocessableEntity, "VALIDATION_FAILED")
	harness.WantUnauthorized(t, g.Send(t, rotation(key).Forge()), harness.WrongSignature)
	once := rotation(key)
	newer := rotated(t, key, g.Send(t, once))
	harness.WantUnauthorized(t, g.Send(t, once), harness.Replayed)
	for _, c := range []harness.Credentials{key, newer} {
		harness.WantAccepted(t, g.Send(t, c.Get()))
	}
	wantConflict(t, g.Send(t, rotation(key)), oldSecret)
	wantConflict(t, g.Send(t, rotation(newer)), twoSecrets)
	if n := len(askKey(t, g, newer).Secrets); n != 2 {
		t.Errorf("the key has %d secrets after refused rotations", n)
	}

	// An operator ends the older one; then the holder may go on.
	last := harness.Credentials{ID: key.ID, Secret: g.KeyCall("POST", "/"+key.ID+"/rotate", harness.Fields{"overlap": "0"}).Secret}
	harness.WantUnauthorized(t, g.Send(t, rotation(newer)), harness.WrongSignature)
	final := rotated(t, last, g.Send(t, rotation(last)))
	harness.WantAccepted(t, g.Send(t, final.Get()))

	g.Do(key, "disable")
	harness.WantUnauthorized(t, g.Send(t, rotation(final)), harness.KeyDisabled)

	line := g.Logged("default.log", `"logger":"card_gateway.audit"`, `"actor":"`+key.ID+`"`, `"action":"rotate"`)
	if !strings.Contains(line, `"result":"ok"`) || !strings.Contains(line, `"key_id":"`+key.ID+`"`) {
		t.Errorf("the audit log says %s", line)
	}
	if n := strings.Count(g.ReadFile("default.log"), `"msg":"key rotate","actor":"`+key.ID+`"`); n != 2 {
		t.Errorf("the audit log has %d lines of the key as the actor, want 2", n)
	}
	canaries := harness.Canaries{"first": key.Secret, "second": newer.Secret, "third": last.Secret, "fourth": final.Secret}
	for _, file := range []string{"default.log", "access.log", "stderr"} {
		canaries.Search(t, file, g.ReadFile(file))
	}
}

// TestSelfRotateAtOnce sends many rotations at the same instant: one is made.
func TestSelfRotateAtOnce(t *testing.T) { eachStore(t, testSelfRotateAtOnce) }

func testSelfRotateAtOnce(t *testing.T, store string) {
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Store: store, Extra: selfHandlers("", "rotate yes")})
	key := g.NewKey(nil)
	requests := make([]*harness.Request, 20)
	for i := range requests {
		requests[i] = rotation(key)
	}
	made := key
	for _, r := range g.AtOnce(t, requests) {
		if r.Status != http.StatusOK {
			wantConflict(t, r, oldSecret)
			continue
		}
		if made != key {
			t.Error("two rotations were made")
		}
		made = rotated(t, key, r)
	}
	harness.WantAccepted(t, g.Send(t, made.Get()))
	harness.WantAccepted(t, g.Send(t, key.Get()))
}

// TestSelfRotateIsOff checks the default.
func TestSelfRotateIsOff(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr, Extra: selfHandlers("", "")})
	key := g.NewKey(nil)
	harness.WantRefused(t, g.Send(t, rotation(key)), http.StatusNotFound, "NOT_FOUND")
	k := askKey(t, g, key)
	if len(k.Secrets) != 1 || k.limit("gateway_rotate").Limit != 0 {
		t.Errorf("without rotation the key is %+v", k)
	}
}
