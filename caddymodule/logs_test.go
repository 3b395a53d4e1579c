package caddymodule

import (
	"io"
	"log"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// TestLogsQuoteNoIssuer sends card data in every place where an error of net/http
// quotes the bytes of an answer.
func TestLogsQuoteNoIssuer(t *testing.T) {
	g := startLogging(t)
	closed := make(chan string)
	close(closed)
	const head = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct{ answer, kind string }{
		{canary + "\r\n\r\n", "malformed HTTP"},
		{head + canary + "\r\n\r\n", "malformed header lines"},
		{head + "Content-Length: " + canary + "\r\n\r\n", "invalid Content-Length"},
		{head + "Transfer-Encoding: " + canary + "\r\n\r\n", "unsupported transfer encoding"},
		{head + "Transfer-Encoding: chunked\r\n\r\n" + canary + "\r\n", "malformed chunked encoding"},
		{head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + canary + "\r\n\r\n", "malformed header lines"},
	} {
		for _, client := range []struct {
			*http.Client
			path string
		}{{g.signed, "/api/v1/cards"}, {g.client, "/elsewhere"}} {
			g.answers(t, c.answer, closed)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway.example"+client.path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
		}
		g.logged(t, c.kind)
	}
	g.logged(t, `"logger":"card_gateway.refusals"`, `"logger":"http.log.error`, `"logger":"http.handlers.reverse_proxy"`, `"msg":"upstream roundtrip"`)
}

// TestLogsQuoteNothingUnasked has an issuer send card data on an idle
// connection.
func TestLogsQuoteNothingUnasked(t *testing.T) {
	g := startLogging(t)
	unasked := make(chan string, 1)
	g.answers(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", unasked)
	if answer := g.get(t, g.signed, "/api/v1/cards", nil); answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	unasked <- canary
	g.logged(t, "without being asked")
}

// TestStandardLogIsTakenBack loads configurations that Caddy refuses. They take
// the standard log, and the gateway takes it back.
func TestStandardLogIsTakenBack(t *testing.T) {
	startLogging(t)
	err := caddy.Load([]byte(`{"admin":{"disabled":true},"apps":{"http":{"servers":{"s":{"listen":["unix//no/such/dir/s"]}}}}}`), true)
	if err == nil {
		t.Fatal("Caddy accepts a socket in no directory")
	}
	runningApp(t).upkeep.probe(t.Context())
	if _, is := log.Writer().(cardlog.StandardLog); !is {
		t.Errorf("the standard log goes to a %T", log.Writer())
	}
}

// TestStandardLogAfterSink loads and ends a configuration with a sink log, which
// is Caddy's for the standard log.
func TestStandardLogAfterSink(t *testing.T) {
	config := configFor(t, "file "+t.TempDir())
	with := strings.Replace(config, `"logging":{`, `"logging":{"sink":{"writer":{"output":"discard"}},`, 1)
	if with == config {
		t.Fatal(config)
	}
	for _, config := range []string{with, config} {
		if err := caddy.Load([]byte(config), true); err != nil {
			t.Fatal(err)
		}
		if _, is := log.Writer().(cardlog.StandardLog); !is {
			t.Errorf("the standard log goes to a %T", log.Writer())
		}
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
}

// TestRequestIDWithCardNumber has a client name a card in its request id.
func TestRequestIDWithCardNumber(t *testing.T) {
	g := startLogging(t)
	answer := g.get(t, g.client, "/api/v1/cards", http.Header{
		"X-Request-Id": {"4111_1111_1111_1111"}, "User-Agent": {"x 4111 1111 1111 1111"}, "X-Gateway-Tenant": {"CANARY"},
		"X-Forwarded-For": {"4111 1111 1111 1111"}, "Accept": {"4111:1111:1111:1111"},
	})
	id := answer.Header.Get("X-Request-Id")
	if strings.Contains(id, "_1111") {
		t.Errorf("the request id is %s", id)
	}
	g.logged(t, `"request_id":"`+id+`"`, `"outcome":"missing_headers"`)
	// Between separators, because a hash of the audit record may have these digits.
	if regexp.MustCompile(`[ _:]1111\D|\D1111[ _:]`).MatchString(g.logs(t)) {
		t.Error("a group of the card number is left")
	}
}
