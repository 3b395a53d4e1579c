package console

import (
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A scene is a gateway with something to see on every page of the console. All of
// it is made up.
type scene struct {
	*harness.Gateway
	home  string
	busy  harness.Credentials // with limits used, a refusal explained, two secrets
	long  harness.Credentials // every text is as long as it may be
	stuck harness.Credentials // locked
}

const longID = "live~a.key.with-a-very-long-name.that-an-earlier-system-gave-it:0123456789abcdef0123456789abcdef@branch.northern.example+0001=2"

// newScene starts a gateway on a store with keys in every state.
func newScene(t *testing.T, store string) *scene {
	t.Helper()
	s := new(scene)
	cert, private, _ := (*harness.Authority)(nil).Sign(t, "api.northern.example")
	u := harness.StartUpstream(t)
	s.Gateway = harness.NewGateway(t, harness.Site{Upstream: u.Addr, Limits: harness.WithLimits, Store: store})
	s.WriteFile("tokens", "alice keys "+token+"\nbob viewer "+viewer+"\n")
	s.WriteFile("cert.pem", string(cert))
	s.WriteFile("key.pem", string(private))
	s.Site.Global = "limit get_card 40/1h\nlock_after 2\nadmin_token file " + s.Path("tokens")
	s.Site.Extra = "handle /card-gateway/* {\ncard_console {\nchanges\n}\n}\n"
	s.Site.Sites = "https://localhost:" + port(harness.FreeAddress(t)) + " {\nbind 127.0.0.1\ntls " + s.Path("cert.pem") + " " + s.Path("key.pem") + "\nrespond ok\n}\n"
	s.Start()
	s.home = "http://" + s.Addr
	s.fill(t)
	return s
}

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// fill makes keys in every state, and refusals of every kind that it shows.
func (s *scene) fill(t *testing.T) {
	t.Helper()
	imported := func(id string, f harness.Fields) harness.Credentials {
		return s.ImportKey(harness.Credentials{ID: id, Secret: "made-up-" + harness.NewMasterKey()[:32]}, f)
	}
	s.busy = imported("live_northern_01", harness.Fields{"tenant": "northern.bank", "description": "card issuing, production", "scopes": []string{"cards:read", "cards:write", "customers:read"}})
	s.long = imported(longID, harness.Fields{"tenant": strings.Repeat("long-tenant.", 5) + "bank", "description": strings.Repeat("Each text is as long as it may be. ", 6),
		"allowed_ips": []string{"203.0.113.0/24", "2001:db8:1234:5678:9abc:def0:1234:0/112", "198.51.100.7"}})
	s.stuck = imported("live_harbour_02", harness.Fields{"tenant": "harbour.pay", "description": "settlement batch", "scopes": []string{"cards:read"}})
	off := imported("live_coast_03", harness.Fields{"tenant": "coast.credit", "description": "contract ended", "scopes": []string{"cards:read"}})
	soon := imported("test_island_04", harness.Fields{"tenant": "island.lab", "expires_at": harness.Moment(time.Now().Add(20 * time.Hour)), "scopes": []string{"cards:read"}})
	s.Do(off, "disable")
	s.KeyCall("POST", "/"+s.busy.ID+"/rotate", harness.Fields{"overlap": "24h"})
	for range 36 {
		harness.WantAccepted(t, s.Send(t, s.busy.Get()))
	}
	harness.WantAccepted(t, s.Send(t, soon.Get()))
	changed := s.busy.Get()
	changed.Target += "?page=2" // after it was signed
	harness.WantUnauthorized(t, s.Send(t, changed), harness.WrongSignature)
	for _, r := range append(s.stuck.Forged(2), s.stuck.Get(), s.stuck.Get()) {
		s.Send(t, r)
	}
	s.Send(t, off.Get())
	s.Send(t, soon.Post())
}
