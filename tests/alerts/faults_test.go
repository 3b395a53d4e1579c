package alerts

import (
	"fmt"
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A fault is one thing that goes wrong, and the only alert that may fire for it.
type fault struct {
	name   string
	alert  string // empty: none; NAME/slow for the one with burn="slow"
	then   string // the alert for what the fault causes in the end, if it lasts
	strike func(s *scene)

	on      string // empty: one gateway on an embedded store
	store   string // lines of the block of Redis; empty: patient ones
	alone   bool   // it needs a Prometheus of its own
	global  string // further lines of the block card_gateway
	auth    string // further lines of the block card_auth
	mistake bool   // see harness.WithMistake
	second  bool   // there is a second issuer, which has no fault
	prepare func(g *harness.Gateway)
}

const (
	oneRedis = "one gateway on Redis"
	twoNodes = "two gateways on one Redis"
)

var faults = []fault{
	{name: "nothing, while new rules roll out over drained gateways", on: twoNodes, strike: rollOut},

	// Gateways.
	{name: "one of two gateways is stopped", alert: "CardGatewayDown", on: twoNodes, strike: func(s *scene) { s.stop(s.nodes[0]) }},
	{name: "one of two gateways hangs", alert: "CardGatewayDown", on: twoNodes, strike: func(s *scene) { s.halt(s.nodes[0].Pid()) }},
	{name: "every gateway is stopped", alert: "CardGatewayDown", on: twoNodes, alone: true, strike: func(s *scene) {
		s.stop(s.nodes[0])
		s.stop(s.nodes[1])
	}},
	{name: "a gateway is killed every 22 s, and starts again", alert: "CardGatewayCrashLoop", strike: crash},
	{name: "nobody scrapes the gateways", alert: "CardGatewayMetricsAbsent", alone: true, strike: func(s *scene) {
		s.unscraped()
		s.finally(s.scraped)
	}},
	{name: "the scraper is blocked, and the gateway serves", alert: "CardGatewayDown", strike: func(s *scene) {
		s.write(fmt.Sprintf(`[{"targets": [%q], "labels": {"job": %q, "instance": %q}}]`, harness.FreeAddress(s.t), s.job, s.nodes[0].Addr))
		s.finally(s.scraped)
	}},
	{name: "no request arrives", alert: "CardGatewayTrafficGone", strike: func(s *scene) {
		s.send(func(int) []*harness.Request { return nil })
		s.finally(func() { s.send(s.healthy) })
	}},
	{name: "a reload is refused, because the handlers are in a wrong order", alert: "CardGatewayDegraded", strike: func(s *scene) {
		wrong := s.nodes[0].Site
		wrong.Routes = "route {\ncard_auth\ncard_rate_limit\n" + wrong.ToIssuer() + "}"
		s.wantRefused(s.nodes[0].TryReload(wrong))
		s.finally(func() { s.nodes[0].Reload(s.site("", "")) })
	}},
	{
		name: "a handler in a wrong order hides behind a matcher", alert: "CardGatewayInternalErrors",
		mistake: true,
		strike: func(s *scene) {
			s.alsoSend(func(began int) []*harness.Request {
				if began%5 != 1 { // within the limit of an operation that has no name
					return nil
				}
				return []*harness.Request{s.key.Request(http.MethodGet, "/api/v1/misplaced", "")}
			})
		},
	},
	{name: "a log that nobody reads", alert: "CardGatewayLogDropped", strike: hangLog},
	{
		name: "the disk of the logs is full", alert: "CardGatewayLogDropped",
		prepare: func(g *harness.Gateway) { g.DiskOfItsOwn(g.Path("logs"), 1<<20) },
		strike: func(s *scene) {
			s.logTo(s.nodes[0].Path("logs/all.log"))
			s.nodes[0].FillDisk(s.nodes[0].Path("logs"))
		},
	},
	{name: "two gateways have different rules", alert: "CardGatewayPolicyDiffers", on: twoNodes, strike: func(s *scene) {
		s.nodes[1].Reload(s.site("lock_after 20", ""))
		s.finally(func() { s.nodes[1].Reload(s.site("", "")) })
	}},
	{name: "a drained node is forgotten", alert: "CardGatewayDegraded", strike: func(s *scene) {
		s.node(0, "drain")
		s.finally(func() { s.node(0, "undrain") })
	}},
	{name: "a dry run is forgotten", alert: "CardGatewayDryRun", strike: func(s *scene) {
		s.nodes[0].Reload(s.site("", "dry_run"))
		s.finally(func() { s.nodes[0].Reload(s.site("", "")) })
	}},
	{name: "a certificate was not renewed", alert: "CardGatewayCertificateOverdue", strike: lateCertificate},
	{name: "the memory for bodies is used up", alert: "CardGatewayOverBudget", global: "body_budget 8MiB\n", auth: "body_timeout 5m\n", strike: holdBodies},
	{
		// When the journal is full too, which here takes four minutes, no request is settled.
		name: "the disk of the store is full", alert: "CardGatewayKeyChangesFail", then: "CardGatewayStoreDown",
		strike:  func(s *scene) { s.fill("data") },
		prepare: func(g *harness.Gateway) { g.DiskOfItsOwn(g.Path("data"), 8<<20) },
	},
	{
		name: "the disk of the audit record is full", alert: "CardGatewayKeyChangesFail",
		prepare: func(g *harness.Gateway) {
			g.DiskOfItsOwn(g.Path("audit"), 1<<20)
			g.Site.Global += "\naudit file " + g.Path("audit/audit.log")
		},
		strike: func(s *scene) { s.fill("audit") },
	},

	// Redis.
	{name: "Redis is stopped", alert: "CardGatewayStoreDown", on: oneRedis, strike: func(s *scene) {
		s.redis.Kill()
		s.finally(s.redis.Start)
	}},
	{name: "Redis hangs", alert: "CardGatewayStoreDown", on: oneRedis, strike: func(s *scene) { s.halt(s.redis.Pid()) }},
	{name: "Redis is full", alert: "CardGatewayStoreDown", on: oneRedis, strike: func(s *scene) { s.configure("maxmemory", "1mb", "64mb") }},
	{name: "Redis is nearly full", alert: "CardGatewayDegraded", on: oneRedis, strike: nearlyFull},
	{name: "Redis may evict", alert: "CardGatewayStoreDown", on: oneRedis, strike: func(s *scene) { s.configure("maxmemory-policy", "allkeys-lru", "noeviction") }},
	{name: "Redis stalls for 1 s in 3", alert: "CardGatewayStoreErrors/slow", on: oneRedis, store: "settle_timeout 200ms\nio_timeout 3s", strike: stall},
	{name: "a record is forged in Redis", alert: "CardGatewayRecordForged", on: oneRedis, strike: forgeRecord},

	// The issuer.
	{name: "the issuer is dead", alert: "CardGatewayUpstreamErrors", strike: func(s *scene) {
		s.issuer.Close()
		s.finally(s.issuer.Reopen)
	}},
	{name: "the issuer answers 500", alert: "CardGatewayUpstreamErrors", strike: func(s *scene) { s.issuerAnswers(http.StatusInternalServerError) }},
	{name: "the issuer hangs", alert: "CardGatewayUpstreamErrors", strike: func(s *scene) {
		over := make(chan struct{})
		s.issuerDoes(func(*harness.Received) harness.Reply { return harness.Reply{Wait: over} })
		s.finally(func() { close(over) })
	}},
	{name: "the issuer's certificate has ended", alert: "CardGatewayUpstreamErrors", strike: endIssuersCertificate},
	{name: "the issuer is slow", alert: "CardGatewayUpstreamSlow", strike: slowIssuer},
	{name: "the issuer answers 401", alert: "CardGatewayIssuerRefusesUs", strike: func(s *scene) { s.issuerAnswers(http.StatusUnauthorized) }},
	{name: "the issuer answers 429", alert: "CardGatewayIssuerThrottles", strike: func(s *scene) { s.issuerAnswers(http.StatusTooManyRequests) }},
	{name: "one of two issuers is dead", alert: "CardGatewayIssuerOut", second: true, strike: func(s *scene) {
		s.issuer.Close()
		s.finally(s.issuer.Reopen)
	}},
	{name: "one of two issuers answers 500", alert: "CardGatewayOneIssuerFails", second: true, strike: func(s *scene) { s.issuerAnswers(http.StatusInternalServerError) }},
	{name: "one of two issuers is slow", alert: "CardGatewayOneIssuerSlow", second: true, strike: slowIssuer},
	{name: "the issuer has changed its customers", alert: "CardGatewayAnswersUntranslatable", strike: func(s *scene) {
		s.issuerDoes(func(*harness.Received) harness.Reply {
			return harness.Answer(201, `<customer id="u1"/>`, "Content-Type: application/json")
		})
	}},

	// Clients.
	{name: "clocks of clients are behind, within the window", alert: "CardGatewayClockSkew", strike: func(s *scene) { s.stamp(-2 * time.Minute) }},
	{name: "clocks of clients are ahead, beyond the window", alert: "CardGatewayClockSkew", strike: func(s *scene) { s.stamp(10 * time.Minute) }},
	{name: "somebody scans key ids", alert: "CardGatewayKeyScan", strike: func(s *scene) {
		s.alsoSend(func(began int) []*harness.Request {
			var all []*harness.Request
			for i := range 4 {
				all = append(all, harness.Credentials{ID: fmt.Sprintf("ck_live_%032x", 4*began+i), Secret: s.key.Secret}.Get())
			}
			return all
		})
	}},
	{name: "recorded requests are replayed", alert: "CardGatewayReplays", strike: func(s *scene) {
		var used *harness.Request
		s.alsoSend(func(began int) []*harness.Request {
			if began%100 == 1 { // 20 s: a clock that is so far off is another fault
				used = s.key.Get()
			}
			return []*harness.Request{used}
		})
	}},
	{name: "guesses lock a key", alert: "CardGatewayKeyLocked", strike: func(s *scene) {
		victim := s.nodes[0].NewKey(nil)
		for _, r := range victim.Forged(60) {
			_, _ = s.nodes[0].Try(r)
		}
		s.countKeys()
		s.alsoSend(func(int) []*harness.Request { return victim.Forged(1) })
		s.finally(func() {
			s.nodes[0].Do(victim, "unlock")
			s.countKeys()
		})
	}},
	{name: "a limit refuses most requests", alert: "CardGatewayLimitsRefuseMany", strike: func(s *scene) {
		greedy := s.nodes[0].NewKey(nil)
		s.nodes[0].Change(greedy, harness.Fields{"limits": map[string]string{"issue_card": "60/1m burst 1"}})
		s.alsoSend(func(int) []*harness.Request { return []*harness.Request{greedy.Post(), greedy.Post(), greedy.Post()} })
	}},
	{name: "a client signs wrongly", alert: "CardGatewayRefusalsAboveUsual", strike: func(s *scene) {
		s.alsoSend(func(int) []*harness.Request { return s.key.Forged(1) })
	}},
	{name: "a client sends from an address that its whitelist does not have", alert: "CardGatewayRefusalsAboveUsual", strike: func(s *scene) {
		barred := s.nodes[0].NewKey(harness.Fields{"allowed_ips": []string{"203.0.113.7"}})
		s.alsoSend(func(int) []*harness.Request { return []*harness.Request{barred.Get()} })
	}},
	{name: "a key expires in a day", alert: "CardGatewayKeysExpireInADay", strike: func(s *scene) { s.expire(10 * time.Hour) }},
	{name: "a key expires in a week", alert: "CardGatewayKeysExpireInAWeek", strike: func(s *scene) { s.expire(72 * time.Hour) }},
}
