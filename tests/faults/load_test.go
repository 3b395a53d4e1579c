package faults

import (
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A sent is one request with its result. No other request has its request line,
// so that the issuer can tell requests apart.
type sent struct {
	line, text, method string
	key, gateway       int // by number
	ahead              int // seconds that it was stamped ahead of the clock
	at, done           time.Time
	status             int // 0: no answer
	message            string

	answered atomic.Bool // or there will be no answer: now it may be sent again
	passed   atomic.Int32
}

// A load sends fresh requests at a rate that does not depend on the answers, to
// each gateway in turn and for each key in turn, until it is finished.
type load struct {
	t        testing.TB
	gateways []*harness.Gateway
	keys     []harness.Credentials
	stop     chan struct{}
	idle     []chan *harness.Wire // by gateway
	tasks    sync.WaitGroup
	skipped  atomic.Int64 // not sent, because too many were on their way

	mu  sync.Mutex
	all []*sent
}

// onTheirWay bounds the requests to one gateway that are not answered yet.
const onTheirWay = 200

func startLoad(b *bench) *load {
	l := &load{t: b.t, gateways: b.gateways, keys: b.keys, stop: make(chan struct{})}
	for range b.gateways {
		l.idle = append(l.idle, make(chan *harness.Wire, onTheirWay))
	}
	flying := make([]atomic.Int64, len(b.gateways))
	l.tasks.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate(b)))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			to := n % len(l.gateways)
			if flying[to].Load() >= onTheirWay {
				l.skipped.Add(1)
				continue
			}
			s := l.fresh(to, n/len(l.gateways)%len(l.keys))
			flying[to].Add(1)
			l.tasks.Go(func() {
				l.send(s)
				flying[to].Add(-1)
			})
		}
	})
	return l
}

// rate is how many requests the load sends a second.
func rate(b *bench) int { return pick(100, 30) * len(b.gateways) }

// maxAhead is how many seconds ahead of the clock some requests are stamped. It
// is less than replay_floor_ahead, because after a loss nothing is promised for
// requests that are stamped further ahead.
const maxAhead = 4

// fresh makes a request and notes it.
func (l *load) fresh(gateway, key int) *sent {
	c := l.keys[key]
	ahead := 0
	if rand.IntN(3) == 0 {
		ahead = 1 + rand.IntN(maxAhead)
	}
	stamp := time.Now().Add(time.Duration(ahead) * time.Second)
	r := c.RequestAt(stamp, http.MethodPost, "", `{"a":1}`)
	if rand.IntN(3) == 0 {
		r = c.RequestAt(stamp, http.MethodGet, "", "")
	}
	r.Target = "/api/v1/orders/" + r.Value("X-Nonce")
	text := r.Sign(c.Secret).Raw()
	line, _, _ := strings.Cut(text, "\r\n")
	s := &sent{line: line, text: text, method: r.Method, key: key, gateway: gateway, ahead: ahead, at: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, s)
	return s
}

// send sends a request over a kept connection and notes the answer.
func (l *load) send(s *sent) {
	var w *harness.Wire
	select {
	case w = <-l.idle[s.gateway]:
	default:
		w, _ = l.gateways[s.gateway].Dial("")
	}
	answer, w := exchange(w, s)
	l.mu.Lock()
	s.done = time.Now()
	if answer != nil {
		s.status, s.message = answer.Status, message(answer)
	}
	l.mu.Unlock()
	if s.status == http.StatusOK {
		s.passed.Add(1)
	}
	s.answered.Store(true)
	if w == nil {
		return
	}
	select {
	case l.idle[s.gateway] <- w:
	default:
		_ = w.Close()
	}
}

// exchange sends a request over a connection. It returns the answer, or nil,
// and the connection, or nil if it cannot be used again. If w is nil, it sends
// nothing.
func exchange(w *harness.Wire, s *sent) (*harness.Response, *harness.Wire) {
	if w == nil {
		return nil, nil
	}
	_ = w.SetDeadline(time.Now().Add(patience))
	_, err := io.WriteString(w, s.text)
	var answer *harness.Response
	if err == nil {
		answer, err = w.Receive(s.method)
	}
	if err != nil {
		_ = w.Close()
		return nil, nil
	}
	if answer.Closes {
		_ = w.Close()
		return answer, nil
	}
	return answer, w
}

// message returns the message of a refusal, or "" for another answer.
func message(answer *harness.Response) string {
	if answer.Status == http.StatusOK {
		return ""
	}
	for text := range harness.Messages([]*harness.Response{answer}) {
		return text
	}
	return ""
}

// since returns what was sent after a moment and is answered.
func (l *load) since(moment time.Time) []*sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var later []*sent
	for i := len(l.all) - 1; i >= 0 && l.all[i].at.After(moment); i-- {
		if l.all[i].answered.Load() {
			later = append(later, l.all[i])
		}
	}
	return later
}

// count returns how many requests were sent.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// some returns a random one of the last 1000 requests, or nil if it is not
// answered yet.
func (l *load) some() *sent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return nil
	}
	last := min(len(l.all), 1000)
	if s := l.all[len(l.all)-1-rand.IntN(last)]; s.answered.Load() {
		return s
	}
	return nil
}

// finish ends the load and returns all that was sent.
func (l *load) finish() []*sent {
	close(l.stop)
	l.tasks.Wait()
	for _, idle := range l.idle {
		for len(idle) > 0 {
			_ = (<-idle).Close()
		}
	}
	return l.all
}
