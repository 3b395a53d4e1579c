package ops

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestVersionsAgree reads the version in each place where the gateway shows it: on
// the admin endpoint, in the metrics, in the log and from the command.
func TestVersionsAgree(t *testing.T) {
	t.Parallel()
	g := harness.StartGateway(t, harness.Site{Upstream: "127.0.0.1:1"})
	status, answer := g.Admin(http.MethodGet, "/card-gateway/status", "", "")
	var build struct{ Version, Commit, Caddy, Go string }
	if err := json.Unmarshal([]byte(answer), &build); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, answer, err)
	}
	if build.Version == "" || build.Commit == "" || !strings.HasPrefix(build.Caddy, "v2.") || !strings.HasPrefix(build.Go, "go1.") {
		t.Errorf("the status is %s", answer)
	}
	series := fmt.Sprintf("card_gateway_build_info{caddy=%q,commit=%q,go=%q,version=%q}", build.Caddy, build.Commit, build.Go, build.Version)
	if info := g.Scrape(t).Of("card_gateway_build_info"); len(info) != 1 || info[series] != 1 {
		t.Errorf("the metrics have %v, want %s", info, series)
	}
	g.Logged("default.log", "the gateway runs", fmt.Sprintf(`"version":%q,"commit":%q,"caddy":%q,"go":%q`, build.Version, build.Commit, build.Caddy, build.Go))
	printed, err := g.Command("version").Output()
	if want := fmt.Sprintf("card-gateway %s (%s), Caddy %s ", build.Version, build.Commit, build.Caddy); err != nil || !strings.HasPrefix(string(printed), want) {
		t.Errorf("`version` prints %q, want %q: %v", printed, want, err)
	}
}
