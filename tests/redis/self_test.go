package redis

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestSelfTogether has two gateways on one Redis. A secret that one has made
// works at the other for the next request. Of two rotations at the same time,
// one at each, exactly one is made. Both show the same rest of a limit.
func TestSelfTogether(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	a, b := startPair(t, harness.StartRedis(t), harness.Site{
		Upstream: u.Addr, Limits: harness.WithLimits, Global: "limit get_card 50/1d",
		Extra: "handle /gateway/v1/* {\ncard_rate_limit\ncard_auth\ncard_self {\nrotate yes\n}\n}\n",
	})
	key := a.NewKey(harness.Fields{"scopes": []string{"cards:read"}})
	gateways := []*harness.Gateway{a, b}
	for _, g := range gateways {
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
	rotations := make([]*harness.Request, 20)
	for i := range rotations {
		rotations[i] = key.Request("POST", "/gateway/v1/key/rotate", "")
	}
	var made struct{ Data struct{ Secret string } }
	answers := harness.SendAtOnce(t, gateways, rotations)
	if got := harness.Statuses(answers); got[http.StatusOK] != 1 || got[http.StatusConflict] != len(rotations)-1 {
		t.Fatalf("rotations at once are answered %v: %v", got, answers)
	}
	for _, r := range answers {
		if r.Status == http.StatusOK {
			if err := json.Unmarshal([]byte(r.Body), &made); err != nil {
				t.Fatal(err)
			}
		}
	}
	newer := harness.Knows(harness.Credentials{ID: key.ID, Secret: made.Data.Secret})
	for _, g := range gateways {
		harness.WantAccepted(t, g.Send(t, newer.Get()))
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
	for _, g := range gateways {
		var view struct {
			Data struct {
				Operations []struct {
					Name  string
					Limit struct{ Limit, Remaining int64 }
				}
				Secrets []struct{ Version int }
			}
		}
		r := g.Send(t, newer.Request("GET", "/gateway/v1/key", ""))
		if err := json.Unmarshal([]byte(r.Body), &view); err != nil || len(view.Data.Operations) == 0 {
			t.Fatalf("%s: %v", r, err)
		}
		if o := view.Data.Operations[0]; o.Name != "get_card" || o.Limit.Limit != 50 || o.Limit.Remaining != 44 || len(view.Data.Secrets) != 2 {
			t.Errorf("the key is shown as %+v, want 44 of 50 left of get_card", view.Data)
		}
	}
}
