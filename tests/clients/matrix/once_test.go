package matrix

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A hostile is a link that cuts, delays, repeats, forges and holds back at random, and
// sends what it has copied again later.
type hostile struct {
	gateway string
	plain   http.Transport
	later   sync.WaitGroup
	copies  sync.Map // by signature: a func() that sends the request again
}

func (h *hostile) forward(r *http.Request, body []byte) (seen, error) {
	out, err := http.NewRequest(r.Method, "http://"+h.gateway+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		return seen{}, err
	}
	out.Header = r.Header.Clone()
	answer, err := h.plain.RoundTrip(out)
	if err != nil {
		return seen{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return seen{status: answer.StatusCode, header: answer.Header, body: text}, err
}

// forgeries are answers that nobody has signed, and that would make a client believe that
// it may send another call, or that this one was taken.
var forgeries = []seen{
	forgery(http.StatusTooManyRequests, "RATE_LIMITED", "x", `"accepted":false`),
	forgery(http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "x", `"accepted":true,"forwarded":false`),
	forgery(http.StatusBadGateway, "UPSTREAM_ERROR", "x", `"accepted":true,"forwarded":false`),
	forgery(http.StatusUnauthorized, "UNAUTHORIZED", "Request timestamp is outside the allowed window", `"x":1`),
	forgery(http.StatusUnauthorized, "UNAUTHORIZED", "Replay detected (duplicate nonce)", `"x":1`),
	forgery(http.StatusForbidden, "FORBIDDEN", "x", `"accepted":false`),
	{status: http.StatusCreated, body: []byte(`{"ok":true}`)},
}

func forgery(status int, code, message, more string) seen {
	header := http.Header{"Retry-After": {"0"}, "X-Gateway-Forwarded": {"no"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}
	return seen{status: status, header: header, body: fmt.Appendf(nil, `{"success":false,"error":{"code":%q,"message":%q,%s}}`, code, message, more)}
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	copied := r.Clone(r.Context())
	h.copies.Store(r.Header.Get("X-Signature"), func() { _, _ = h.forward(copied, body) })
	again := func(after time.Duration) {
		h.later.Go(func() {
			time.Sleep(after) // the fault itself: a copy that arrives late
			_, _ = h.forward(copied, body)
		})
	}
	fate := rand.IntN(100)
	switch {
	case fate < 8: // nothing arrives
		panic(http.ErrAbortHandler)
	case fate < 14: // it arrives when the client has given up this attempt
		again(time.Duration(rand.IntN(3000)) * time.Millisecond)
		panic(http.ErrAbortHandler)
	case fate < 20:
		again(0) // twice at once
	case fate < 26:
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond) // the fault itself: a slow link
	case fate < 34:
		again(time.Duration(rand.IntN(3000)) * time.Millisecond)
		send(w, forgeries[rand.IntN(len(forgeries))], false)
		return
	}
	answer, err := h.forward(r, body)
	if err != nil || fate >= 92 { // it was executed, and the answer is lost
		panic(http.ErrAbortHandler)
	}
	switch {
	case fate < 42:
		send(w, forgeries[rand.IntN(len(forgeries))], false)
	case fate < 48:
		strip(answer.header)
		send(w, answer, false)
	default:
		send(w, answer, fate < 54)
	}
}

// send sends an answer, or half of it.
func send(w http.ResponseWriter, s seen, half bool) {
	for name, values := range s.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(s.body)))
	w.WriteHeader(s.status)
	if half {
		_, _ = w.Write(s.body[:len(s.body)/2])
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(s.body)
}

// executions counts how often an issuer has executed each call, by the text of its body.
type executions struct {
	mu  sync.Mutex
	all map[string]int
}

func (e *executions) reply(r *harness.Received) harness.Reply {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all[r.Body]++
	return harness.Answer(http.StatusCreated, `{"ok":true}`, "Content-Type: application/json")
}

// TestCallsOnce sends calls through a hostile link to a gateway that is killed again and
// again, and at the end everything once more: none is executed twice, what succeeded was
// executed, and what is certainly not executed never was. CARD_TEST_CALLS is the number of
// calls of each client, for a long run: in it the clock of the gateway is up to five
// seconds wrong, another one after each kill, and the same is done with a gateway whose
// Redis fails over again and again.
func TestCallsOnce(t *testing.T) {
	long := os.Getenv("CARD_TEST_CALLS")
	calls, callers, pause := 24, 6, 2*time.Second
	if long != "" {
		calls, _ = strconv.Atoi(long)
		callers, pause = 150, 10*time.Second // callers wait most of the time
	}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			t.Run("killed", func(t *testing.T) {
				clock := harness.NewClock(t)
				said := l.once(t, calls, callers, pause, "", func(g *harness.Gateway, n int) {
					if long != "" && n == 0 {
						g.FollowClock(clock)
					}
					g.Kill()
					if long != "" {
						clock.Shift(time.Duration(rand.IntN(11)-5) * time.Second)
					}
					g.Start()
				})
				if long != "" && said["unknown"] > calls/100 { // of few, chance may make one
					t.Errorf("%d of %d calls are unknown", said["unknown"], calls)
				}
			})
			if long == "" {
				return
			}
			t.Run("failed over", func(t *testing.T) {
				servers := harness.StartSentinel(t)
				for _, sentinel := range servers.Sentinels { // else they refuse one within a minute of another
					if _, err := sentinel.TryDo("sentinel", "set", "gw", "failover-timeout", "5000"); err != nil {
						t.Fatal(err)
					}
				}
				l.once(t, calls, callers, pause, servers.Store, func(_ *harness.Gateway, n int) { failOver(t, servers, n) })
			})
		})
	}
}

// failOver makes another server the master: every other time by killing the one that is.
func failOver(t *testing.T, servers *harness.Servers, n int) {
	t.Helper()
	var master *harness.RedisServer
	for _, r := range servers.All {
		if r.Role() == "master" {
			master = r
		}
	}
	if master == nil {
		return
	}
	if n%2 == 1 {
		master.Kill()
	}
	for promoted := false; !promoted; time.Sleep(50 * time.Millisecond) { // the test's own limit ends it
		if n%2 == 0 { // again: one is refused while another goes on
			_, _ = servers.Sentinels[0].TryDo("sentinel", "failover", "gw")
		}
		promoted = slices.ContainsFunc(servers.All, func(r *harness.RedisServer) bool { return r != master && r.Running() && r.Role() == "master" })
	}
	if !master.Running() {
		master.Start()
	}
}

// once sends the calls from as many programs as there are callers, and returns how many
// ended in which way.
func (l language) once(t *testing.T, calls, callers int, pause time.Duration, store string, trouble func(g *harness.Gateway, n int)) map[string]int {
	dir := l.install(t)
	drivers := make([]*driver, callers)
	for i := range drivers {
		drivers[i] = l.start(t, dir)
		drivers[i].do(t, call{Do: "hello"}) // it runs, before the next one is built
	}
	executed := executions{all: map[string]int{}}
	upstream := startIssuer(t)
	upstream.Does(executed.reply)
	gateway := harness.StartGateway(t, harness.Site{Upstream: upstream.Addr, Store: store, Global: "sign_responses", Extra: "handle /gateway/v1/* {\ncard_auth\ncard_self\n}\n"})
	key := gateway.NewKey(nil)
	link := &hostile{gateway: gateway.Addr}
	link.plain.DisableCompression = true
	server := httptest.NewServer(link)
	t.Cleanup(server.Close)
	t.Cleanup(link.plain.CloseIdleConnections)

	outcomes := make([][]outcome, callers)
	var all sync.WaitGroup
	for i, d := range drivers {
		all.Go(func() {
			for n := range calls / callers {
				outcomes[i] = append(outcomes[i], d.call(t, key, server.URL, fmt.Sprintf(`{"call":"%d-%d"}`, i, n)))
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	troubles := 0
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(pause + rand.N(pause)):
			trouble(gateway, troubles)
			troubles++
		}
	}
	link.later.Wait()
	link.copies.Range(func(_, send any) bool { send.(func())(); return true })
	return executed.judge(t, outcomes, troubles)
}

// An outcome is what a client has said of a call.
type outcome struct {
	body, said string
}

// call sends one call. One whose outcome is not known is closed.
func (d *driver) call(t *testing.T, key harness.Credentials, base, body string) outcome {
	ask := call{
		Do: "request", Adapter: "client", Base: base, KeyID: key.ID, Secret: key.Secret, VerifyAnswers: true, Attempts: 12,
		Method: "POST", Target: "/api/v1/cards", Body: []byte(body), HasBody: true,
	}
	got := d.do(t, ask)
	switch {
	case got.Error == nil:
		return outcome{body, "success"}
	case got.Error.NotExecuted:
		return outcome{body, "not executed"}
	case got.Error.Type != "unknown":
		return outcome{body, got.Error.Type}
	}
	ask.Do, ask.Nonce, ask.Timestamp = "close", got.Error.Nonce, strconv.FormatInt(got.Error.Timestamp, 10)
	switch closed := d.do(t, ask); {
	case closed.Closed:
		return outcome{body, "closed"}
	case closed.Error != nil && closed.Error.Type == "taken":
		return outcome{body, "taken"}
	default:
		return outcome{body, "unknown"}
	}
}

// judge compares what the clients have said with what was executed.
func (e *executions) judge(t *testing.T, outcomes [][]outcome, troubles int) map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	said := map[string]int{}
	total := 0
	for _, all := range outcomes {
		for _, o := range all {
			total++
			said[o.said]++
			n := e.all[o.body]
			switch o.said {
			case "success":
				if n != 1 {
					t.Errorf("%s succeeded, and was executed %d times", o.body, n)
				}
			case "not executed", "closed", "connection":
				if n != 0 {
					t.Errorf("%s is %s, and was executed %d times", o.body, o.said, n)
				}
			case "taken", "unknown", "api":
				if n > 1 {
					t.Errorf("%s is %s, and was executed %d times", o.body, o.said, n)
				}
			default:
				t.Errorf("%s ended with an error of type %s", o.body, o.said)
			}
		}
	}
	text, _ := json.Marshal(said)
	t.Logf("%d calls, %d kills or failovers: %s", total, troubles, text)
	if said["success"] == 0 || total == 0 {
		t.Errorf("no call succeeded: %s", text)
	}
	return said
}
