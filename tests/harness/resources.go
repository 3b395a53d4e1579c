package harness

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Resources is what a process holds.
type Resources struct {
	Goroutines int
	Files      int   // open file descriptors, without connections to issuers
	Issuers    int   // open connections to issuers, by the gateway's own count
	Heap       int64 // bytes in use after a garbage collection
	Resident   int64 // bytes of memory of the process
}

// Resources returns what the gateway's process holds, after a garbage collection.
// It skips the test where the system does not report it.
func (g *Gateway) Resources(t testing.TB) (r Resources) {
	t.Helper()
	if status, _ := g.Admin(http.MethodGet, "/debug/pprof/heap?gc=1", "", ""); status != http.StatusOK {
		t.Fatalf("the profile of the heap: %d", status)
	}
	_, text := g.Admin(http.MethodGet, "/debug/pprof/goroutine?debug=1", "", "")
	if _, err := fmt.Sscanf(text, "goroutine profile: total %d", &r.Goroutines); err != nil {
		t.Fatalf("the profile of goroutines begins with %.80q", text)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", g.Pid()))
	if err != nil {
		t.Skipf("the files of a process are not known here: %v", err)
	}
	samples := g.Scrape(t)
	for series, open := range samples {
		if strings.HasPrefix(series, "card_gateway_upstream_connections{") {
			r.Issuers += int(open)
		}
	}
	r.Files, r.Heap, r.Resident = len(files)-r.Issuers, int64(samples["go_memstats_heap_inuse_bytes"]), g.ResidentMemory(t)
	return r
}
