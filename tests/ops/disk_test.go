package ops

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestRevocationOnAFullDisk disables keys while the disk of the store is full.
func TestRevocationOnAFullDisk(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.DiskOfItsOwn(g.Path("data"), 8<<20)
	g.Start()
	keys := []harness.Credentials{g.NewKey(nil), g.NewKey(nil), g.NewKey(nil)}
	spare := fmt.Sprintf("/proc/%d/root%s", g.Pid(), g.Path("data/keys.json.spare"))
	harness.Eventually(t, "room is reserved", func() bool {
		_, err := os.Stat(spare)
		return err == nil
	})
	free := g.FillDisk(g.Path("data"))
	change := func(key harness.Credentials, how string) {
		if status, answer := g.Admin(http.MethodPost, "/card-gateway/keys/"+key.ID+"/"+how, "", ""); status != http.StatusOK {
			t.Errorf("%s on a full disk: %d %s", how, status, answer)
		}
		g.FillDisk(g.Path("data")) // with what the change has left free
	}
	for range 20 { // more than is left in the last block of the key file
		change(keys[0], "disable")
		change(keys[0], "enable")
	}
	for _, key := range keys {
		change(key, "disable")
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	}
	free()
	g.Do(keys[0], "enable")
	harness.WantAccepted(t, g.Send(t, keys[0].Get()))
}

// TestAuditOnAFullDisk fills the disk of the audit record. Changes of keys are
// refused, and the gateway reports that as long as there is no room.
func TestAuditOnAFullDisk(t *testing.T) {
	t.Parallel()
	g := harness.NewGateway(t, harness.Site{Upstream: harness.StartUpstream(t).Addr})
	g.DiskOfItsOwn(g.Path("audit"), 1<<20)
	g.Site.Global = "audit file " + g.Path("audit/audit.log")
	g.Start()
	degraded := func() bool {
		answer, err := g.Try(&harness.Request{Method: http.MethodGet, Target: "/readyz"})
		return err == nil && strings.Contains(answer.Body, `"degraded":["audit"]`)
	}
	var free func()
	harness.Eventually(t, "a change of a key is refused", func() bool {
		free = g.FillDisk(g.Path("audit"))
		_, made := g.TryNewKey()
		return !made
	})
	harness.Eventually(t, "the gateway is degraded", degraded)
	for range 40 { // it tries again in between
		time.Sleep(100 * time.Millisecond)
		if !degraded() {
			t.Fatal("the gateway is no longer degraded, although there is no room")
		}
	}
	free()
	harness.Eventually(t, "the gateway is no longer degraded", func() bool { return !degraded() })
	g.NewKey(nil)
}
