package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/bench/load"
)

// TestHAProxy checks that the configuration refuses what the scenarios of the bench do not
// send, so that its figures are those of a server that checks.
func TestHAProxy(t *testing.T) {
	dir := t.TempDir()
	issuer, err := StartIssuer(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer issuer.Close()
	key := load.Key{ID: "ck_a", Secret: "secret-a"}
	haproxy, err := KindOf("haproxy").Start(t.Context(), &Setup{
		Dir: dir, Issuer: issuer.Addr(), Keys: []load.Key{key}, Limit: Limit{Requests: 1, Seconds: 3600},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer haproxy.Close()
	signed := func(id string, size int, at time.Time) []byte {
		return load.Spec{Keys: []load.Key{{ID: id, Secret: key.Secret}}, Body: load.Body(size), Time: at}.Request()
	}
	now := time.Now()
	accepted := signed(key.ID, 1024, now)
	for _, c := range []struct {
		name    string
		request []byte
		status  int
		part    string
	}{
		{"unknown key", signed("ck_b", 16, now), 401, "unknown"},
		{"no nonce", bytes.Replace(signed(key.ID, 16, now), []byte("X-Nonce"), []byte("X-Other"), 1), 401, "missing"},
		{"old", signed(key.ID, 16, now.Add(-302*time.Second)), 401, "timestamp"},
		{"early", signed(key.ID, 16, now.Add(330*time.Second)), 401, "timestamp"},
		{"another body", bytes.Replace(signed(key.ID, 1024, now), []byte("xxx"), []byte("xyx"), 1), 401, "body"},
		{"another path", bytes.Replace(signed(key.ID, 16, now), []byte("/api/v1/cards"), []byte("/api/v1/card5"), 1), 401, "signature"},
		{"over the buffer", signed(key.ID, 140_000, now), 413, ""},
		{"accepted, after all of these", accepted, 200, "cardId"},
		{"over the limit", signed(key.ID, 1024, now), 429, "limited"},
	} {
		status, body := answer(t, haproxy.Addr(), c.request)
		if status != c.status || !bytes.Contains(body, []byte(c.part)) {
			t.Errorf("%s: %d %s, want %d with %q", c.name, status, body, c.status, c.part)
		}
	}
}

func answer(t *testing.T, addr string, request []byte) (status int, body []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if body, err = io.ReadAll(got.Body); err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, body
}
