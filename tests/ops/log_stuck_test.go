package ops

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// TestLogThatNobodyReads makes both logs write to a pipe that nobody reads.
// Requests and health checks are still answered. The lines arrive when the pipe
// is read again. A gateway that is stopped while nobody reads ends at once.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	u := harness.StartUpstream(t)
	g := harness.StartGateway(t, harness.Site{Upstream: u.Addr})
	key := g.NewKey(nil)
	pipe := g.Path("pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // both ways, so that opening it does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	own := g.Caddyfile()
	stuck := own
	for _, name := range []string{"default.log", "access.log"} {
		stuck = strings.Replace(stuck, "output file "+g.Path(name), "output card_queue file "+pipe, 1)
	}
	g.ReloadText(t, stuck)

	const requests = 300 // each has a line of some 1000 bytes; a pipe holds 65536
	for i := range requests {
		r := key.Get().Set("X-Request-Id", fmt.Sprintf("stuck-%d", i))
		harness.WantAccepted(t, g.Send(t, r))
		if live := g.Send(t, &harness.Request{Method: http.MethodGet, Target: "/livez"}); live.Status != http.StatusOK {
			t.Fatalf("/livez is answered %s", live)
		}
	}
	if got := len(u.Took()); got != requests {
		t.Errorf("the upstream received %d requests of %d", got, requests)
	}
	harness.Eventually(t, "the gateway says that its log is in trouble", func() bool {
		return g.Scrape(t)[`card_gateway_degraded{what="log"}`] == 1
	})
	if ready := g.Send(t, &harness.Request{Method: http.MethodGet, Target: "/readyz"}); ready.Status != http.StatusOK || !strings.Contains(ready.Body, `"degraded":["log"]`) {
		t.Errorf("/readyz is answered %s", ready)
	}
	if lost := g.Scrape(t)["card_gateway_log_dropped_total"]; lost != 0 {
		t.Errorf("%v lines were dropped although there was room", lost)
	}

	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, 1<<20)
	last := fmt.Sprintf(`"request_id":"stuck-%d"`, requests-1)
	read := 0
	for lines.Scan() && !strings.Contains(lines.Text(), last) {
		read++
	}
	if read < requests-1 {
		t.Errorf("%d lines arrived before that of the last of %d requests", read, requests)
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	for range requests { // and now nobody reads again
		harness.WantAccepted(t, g.Send(t, key.Get()))
	}
	g.Stop()
}
