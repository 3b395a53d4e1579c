package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sys/cpu"

	"github.com/card-gateway/card-gateway/caddymodule/issuer"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/translating"
	"github.com/card-gateway/card-gateway/sign"
	"github.com/card-gateway/card-gateway/store"
)

// quickIssuer answers each request, whose end it knows by its last bytes, and
// allocates nothing.
func quickIssuer(t *testing.T, end string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	answer := []byte("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 26\r\n\r\n{\"success\":true,\"data\":{}}")
	serve := func(conn net.Conn) {
		defer conn.Close()
		buf, want := make([]byte, 16<<10), []byte(end)
		for n := 0; ; {
			m, err := conn.Read(buf[n:])
			if err != nil {
				return
			}
			if n += m; bytes.HasSuffix(buf[:n], want) {
				if _, err := conn.Write(answer); err != nil {
					return
				}
				n = 0
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

// signedPosts returns requests of a kind that are ready for the handlers, as
// Caddy's server passes them on. Their context has a socket, and no end.
func signedPosts(t *testing.T, n int, by *sign.Signer, body string) []*http.Request {
	t.Helper()
	client, err := net.Dial("tcp", quickIssuer(t, "END"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	all := make([]*http.Request, n)
	for i := range all {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/cards", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		if err := by.Sign(r, []byte(body)); err != nil {
			t.Fatal(err)
		}
		vars := map[string]any{caddyhttp.ClientIPVarKey: "203.0.113.7"}
		all[i] = r.WithContext(request.WithSocket(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars), client))
	}
	return all
}

// answerSink is where an answer goes without a recorder's allocations.
type answerSink struct {
	header http.Header
	status int
}

func (s *answerSink) Header() http.Header         { return s.header }
func (s *answerSink) WriteHeader(status int)      { s.status = status }
func (s *answerSink) Write(p []byte) (int, error) { return len(p), nil }
func (s *answerSink) Flush()                      {}

// SetReadDeadline is there because net/http's server has it.
func (s *answerSink) SetReadDeadline(time.Time) error { return nil }

// chainAllocations is how many allocations an accepted POST of 1 KiB costs from the first
// handler to the last, with the issuer's answer. Of these, 6 belong to package forward.
// The watch over a context that can end costs two more.
const chainAllocations = 18

// chainInstructions is how many instructions it costs to sign an accepted POST and to
// handle it, by the version of Go: counted by valgrind, on amd64 with AVX2.
var chainInstructions = map[string]int{"go1.27": 191_000}

// TestChainAllocations counts for card_rate_limit, card_auth with the embedded store,
// card_translate and card_forward: without tracing, and for a request whose trace is not
// sampled.
func TestChainAllocations(t *testing.T) {
	t.Run("no trace", func(t *testing.T) { testChainAllocations(t.Context(), t) })
	t.Run("not sampled", func(t *testing.T) {
		id := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}}
		testChainAllocations(trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(id)), t)
	})
}

func testChainAllocations(ctx context.Context, t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector drops at random what a sync.Pool holds; `make unit` runs this without it")
	}
	g := newGate(t)
	body := strings.Repeat("x", 1021) + "END"
	last := &issuer.Forward{Issuers: []string{quickIssuer(t, "END")}}
	if err := last.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = last.Cleanup() })
	g.auth.walk.Do(func() { // nothing but card_forward sends
		g.auth.site.downstream = downstream{}
		g.auth.site.gate = g.auth.site.newGate()
	})
	chain := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error { return last.ServeHTTP(w, r, nil) })
	for _, h := range []caddyhttp.MiddlewareHandler{new(translating.Translate), g.auth, &RateLimit{log: zap.NewNop()}} {
		next := chain
		chain = func(w http.ResponseWriter, r *http.Request) error { return h.ServeHTTP(w, r, next) }
	}
	runs := 500
	if n := os.Getenv(chainRuns); n != "" {
		runs, _ = strconv.Atoi(n)
	}
	by := g.signer(store.Fields{
		AllowedIPs: []string{"203.0.113.0/24"}, Limits: map[string]json.RawMessage{"issue_card": json.RawMessage(`"1000000/1m"`)},
	})
	requests := signedPosts(t, runs+1, by, body)
	for i, r := range requests {
		if span := trace.SpanFromContext(ctx); span.SpanContext().IsValid() {
			requests[i] = r.WithContext(trace.ContextWithSpan(r.Context(), span))
		}
	}
	sink := &answerSink{header: make(http.Header)}
	at := 0
	got := testing.AllocsPerRun(runs, func() {
		clear(sink.header)
		if err := chain(sink, requests[at]); err != nil || sink.status != http.StatusCreated {
			t.Fatalf("request %d: %d, %v", at, sink.status, err)
		}
		at++
	})
	t.Logf("%v allocations", got)
	if got != chainAllocations && os.Getenv(chainRuns) == "" {
		t.Errorf("%v allocations, not %d: if that is meant, change the number, and say why in the commit", got, chainAllocations)
	}
}

// chainRuns names the variable with the number of requests of TestChainAllocations.
const chainRuns = "CARD_TEST_CHAIN_RUNS"

// TestChainInstructions compares what a request costs with chainInstructions, where that
// can be counted. The counts of two runs differ by what the additional requests cost, and
// on a busy machine by what Go's scheduler does with time that passes: the cost has changed
// if several such counts say so.
func TestChainInstructions(t *testing.T) {
	version := strings.Join(strings.SplitN(runtime.Version(), ".", 3)[:2], ".")
	want, known := chainInstructions[version]
	if _, err := exec.LookPath("valgrind"); err != nil || !known || runtime.GOARCH != "amd64" || !cpu.X86.HasAVX2 || raceDetector {
		t.Skip("not measured: it needs valgrind, amd64 with AVX2, a number for " + version + ", and no race detector")
	}
	const few, more = 300, 1000
	var counted []int
	for range 4 {
		got := (instructions(t, few+more) - instructions(t, few)) / more
		t.Logf("%d instructions", got)
		if got >= want*99/100 && got <= want*101/100 {
			return
		}
		counted = append(counted, got)
	}
	t.Errorf("%d instructions, not %d: if that is meant, change the number, and say why in the commit", counted, want)
}

// instructions counts those of this program while it runs TestChainAllocations.
func instructions(t *testing.T, requests int) int {
	t.Helper()
	run := exec.CommandContext(t.Context(), "valgrind", "--tool=callgrind", "--callgrind-out-file="+os.DevNull, os.Args[0], "-test.run=TestChainAllocations/no_trace")
	run.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1", chainRuns+"="+strconv.Itoa(requests))
	out, err := run.CombinedOutput()
	_, text, found := strings.Cut(string(out), "Collected : ")
	n, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(text, "\n", 2)[0]))
	if err != nil || !found || n == 0 {
		t.Fatalf("valgrind: %v\n%s", err, out)
	}
	return n
}
