package ops

import (
	"fmt"
	"net/http"
	"os"
	"testing"

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
	for _, key := range keys {
		if status, answer := g.Admin(http.MethodPost, "/card-gateway/keys/"+key.ID+"/disable", "", ""); status != http.StatusOK {
			t.Errorf("disable on a full disk: %d %s", status, answer)
		}
		harness.WantUnauthorized(t, g.Send(t, key.Get()), harness.KeyDisabled)
	}
	free()
	g.Do(keys[0], "enable")
	harness.WantAccepted(t, g.Send(t, keys[0].Get()))
}
