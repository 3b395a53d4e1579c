package faults

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A replayer sends requests again without changes, to any gateway. It notes
// those that are accepted a second time.
type replayer struct {
	t     testing.TB
	sent  atomic.Int64
	twice atomic.Int64

	mu     sync.Mutex
	others map[string]int // answers that a correct request must not get
}

// send sends a request again over a connection, and returns the connection, or
// nil if it cannot be used again.
func (p *replayer) send(w *harness.Wire, s *sent) (again *harness.Wire, answered bool) {
	answer, again := exchange(w, s)
	p.sent.Add(1)
	if answer == nil {
		return nil, false
	}
	switch answer.Status {
	case http.StatusOK:
		if s.passed.Add(1) > 1 {
			p.twice.Add(1)
			p.t.Errorf("%s, sent at %v and answered %d %s, was accepted again", s.line, s.at, s.status, s.message)
		}
	case http.StatusUnauthorized:
		if m := message(answer); m != harness.Replayed && m != harness.OutsideWindow {
			p.note(m)
		}
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusInternalServerError:
	default:
		p.note(fmt.Sprintf("%d %s", answer.Status, message(answer)))
	}
	return again, true
}

func (p *replayer) note(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others[what]++
}

// replayPause is the time between two replays on one connection while the load
// runs.
const replayPause = 5 * time.Millisecond

// meanwhile sends earlier requests again and again, until the load has ended.
func (p *replayer) meanwhile(l *load) {
	for i := range 2 {
		l.tasks.Go(func() {
			var w *harness.Wire
			tick := time.NewTicker(replayPause)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					if w != nil {
						_ = w.Close()
					}
					return
				case <-tick.C:
				}
				if w == nil {
					w, _ = l.gateways[(i+n)%len(l.gateways)].Dial("")
				}
				if s := l.some(); s != nil {
					w, _ = p.send(w, s)
				}
			}
		})
	}
}

// everything sends all requests again to every gateway, several at once. It
// goes on until atLeast requests were sent, and sends each at least once to
// each gateway.
func (p *replayer) everything(all []*sent, gateways []*harness.Gateway, atLeast int) {
	const connections = 50
	type job struct {
		s  *sent
		to int
	}
	jobs := make(chan job)
	var tasks sync.WaitGroup
	for range connections {
		tasks.Go(func() {
			wires := make([]*harness.Wire, len(gateways))
			for j := range jobs {
				for tries, answered := 0, false; !answered && tries < 5; tries++ {
					if wires[j.to] == nil {
						wires[j.to], _ = gateways[j.to].Dial("")
					}
					if wires[j.to], answered = p.send(wires[j.to], j.s); !answered && tries == 4 {
						p.note("no answer")
					}
				}
			}
			for _, w := range wires {
				if w != nil {
					_ = w.Close()
				}
			}
		})
	}
	for begun := p.sent.Load(); ; {
		for _, s := range all {
			for to := range gateways {
				jobs <- job{s, to}
			}
		}
		if len(all) == 0 || p.sent.Load()-begun >= int64(atLeast) {
			break
		}
	}
	close(jobs)
	tasks.Wait()
}
