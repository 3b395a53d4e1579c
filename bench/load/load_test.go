package load

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
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
