package load

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// Every request of a pool is complete, is signed by the keys in turn, and has
// its own nonce.
func TestPool(t *testing.T) {
	spec := Spec{Keys: []Key{{"ck_a", "secret-a"}, {"ck_b", "secret-b"}}, Count: 100, Body: Body(1024), Time: time.Unix(1750000000, 0)}
	pool, err := WritePool(t.TempDir(), spec)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := os.ReadFile(pool.heads)
	if err != nil || len(heads) != 100*pool.length {
		t.Fatalf("%d bytes of heads of %d, %v", len(heads), pool.length, err)
	}
	sum := sha256.Sum256(spec.Body)
	seen := make(map[string]bool)
	for i := range 100 {
		head := heads[i*pool.length : (i+1)*pool.length]
		r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(spec.Body))))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(body, spec.Body) {
			t.Fatalf("the body has %d bytes, %v", len(body), err)
		}
		nonce := r.Header.Get("X-Nonce")
		if seen[nonce] || r.Header.Get("X-Api-Key") != spec.Keys[i%2].ID || r.Header.Get("X-Body-Hash") != base64.StdEncoding.EncodeToString(sum[:]) {
			t.Errorf("request %d: %v", i, r.Header)
		}
		seen[nonce] = true
	}
}

func TestPoolOfUnequalKeys(t *testing.T) {
	if _, err := WritePool(t.TempDir(), Spec{Keys: []Key{{"a", "s"}, {"bb", "s"}}, Count: 2}); err == nil {
		t.Error("heads of two lengths are taken")
	}
}

func TestBody(t *testing.T) {
	for _, n := range []int{16, 1024, 64 << 10} {
		if got := Body(n); len(got) != n {
			t.Errorf("a body of %d bytes has %d", n, len(got))
		}
	}
	if len(Body(0)) != 0 {
		t.Error("no body has bytes")
	}
}

// The output of a run with errors gives an error and no figures.
func TestParse(t *testing.T) {
	for text, want := range map[string]error{
		"Running\nbench {\"requests\":5,\"micros\":9,\"p50\":1,\"p99\":2,\"refused\":1,\"broken\":0,\"exhausted\":0}\n": nil,
		"Running\nbench {\"requests\":5,\"micros\":9,\"p50\":1,\"p99\":2,\"refused\":1,\"broken\":0,\"exhausted\":1}\n": ErrExhausted,
	} {
		if _, err := parse([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{
		"", "Running\nbench {\n", "Running\nbench {\"requests\":0}\n", "Running\nbench {\"requests\":5,\"broken\":1}\n",
	} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q gives figures", text)
		}
	}
}

// A server that stands still is charged for the requests that came due
// meanwhile, and a refusal is counted.
func TestSteady(t *testing.T) {
	const count, rate, pause = 200, 1000, 400 * time.Millisecond
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			time.Sleep(pause) // the fault itself: a server that stands still
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	pool, err := WritePool(t.TempDir(), Spec{Keys: []Key{{"ck_a", "secret-a"}}, Count: count, Body: Body(1024), Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	run := Steady{Run: Run{Addr: server.Listener.Addr().String(), Connections: 1, Duration: count * time.Second / rate, Pool: pool}, Rate: rate}
	result, err := run.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if requests.Load() != count || result.Requests != count || result.Refused != 1 {
		t.Errorf("%d requests have arrived, %+v", requests.Load(), result)
	}
	// All were due within 200 ms, and the second was answered after 400.
	if least := pause - count*time.Second/rate; result.P50 < least || result.P999 < result.P99 || result.P99 < result.P50 {
		t.Errorf("half of the latencies are under %s: %+v", least, result)
	}
	run.Duration *= 2
	if _, err := run.Do(t.Context()); !errors.Is(err, ErrExhausted) {
		t.Errorf("a pool that is too small: %v", err)
	}
}

// An answer is complete by its length.
func TestAnswered(t *testing.T) {
	for text, want := range map[string][2]bool{
		"HTTP/1.1 200 OK\r\nContent-Le":                          {false, false},
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{":          {false, false},
		"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nA: b\r\n\r\n{}": {false, true},
		"HTTP/1.1 429 Too Many\r\nContent-Length:0\r\n\r\n":      {true, true},
	} {
		refused, complete, err := answered([]byte(text))
		if got := [2]bool{refused && complete, complete}; err != nil || got != want {
			t.Errorf("%q: refused %v, complete %v, %v", text, refused, complete, err)
		}
	}
	if _, _, err := answered([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")); err == nil {
		t.Error("an answer without a length is taken")
	}
}
