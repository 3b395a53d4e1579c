package request

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/headers"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/share"
)

// The answer has the gateway's headers, whichever method a handler calls first.
func TestResponseWriterBegins(t *testing.T) {
	for name, first := range map[string]func(w *Writer) error{
		"WriteHeader": func(w *Writer) error { w.WriteHeader(http.StatusOK); return nil },
		"Write":       func(w *Writer) error { _, err := w.Write([]byte("x")); return err },
		"ReadFrom":    func(w *Writer) error { _, err := w.ReadFrom(strings.NewReader("x")); return err },
		"Flush":       func(w *Writer) error { return http.NewResponseController(w).Flush() },
	} {
		rec := httptest.NewRecorder()
		w := NewWriter(rec, &Info{RequestID: "id-1"})
		w.Header().Set("X-RateLimit-Limit", "9")
		w.Header().Set("X-Request-Id", "upstream")
		if err := first(w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		h := rec.Result().Header
		if h.Get("X-Request-Id") != "id-1" || h.Get("X-RateLimit-Limit") != "" || h.Get("Cache-Control") != "private, no-store" {
			t.Errorf("%s: the answer has %v", name, h)
		}
	}
}

// Informational answers and trailers do not reach the client, in whichever way a
// handler sends them.
func TestResponseWriterSendsOneAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(outer http.ResponseWriter, _ *http.Request) {
		w := NewWriter(outer, &Info{RequestID: "id-1"})
		h := w.Header()
		h.Set("X-Request-Id", "upstream")
		h.Set("Trailer", "X-Checksum, X-Request-Id")
		h.Set(http.TrailerPrefix+"X-Early", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusContinue)
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("x"))
		_ = w.FlushError()
		h.Set("X-Checksum", "1")
		w.Header().Set("X-Request-Id", "upstream")
		w.Header().Set("X-Ratelimit-Limit", "9")
		w.Header().Set(http.TrailerPrefix+"Cache-Control", "public")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	informational := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { informational++; return nil },
	})
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	got, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || string(body) != "x" || got.StatusCode != http.StatusOK || got.Header.Get("X-Request-Id") != "id-1" {
		t.Errorf("the answer is %d %q, %v: %v", got.StatusCode, body, got.Header, err)
	}
	if len(got.Trailer) > 0 || informational > 0 {
		t.Errorf("%d informational answers, trailers %v", informational, got.Trailer)
	}
}

// A status that is not valid becomes a refusal of the gateway, with any body after
// it.
func TestResponseWriterReplacesOddStatuses(t *testing.T) {
	to := NewReporter(zap.NewNop(), nil)
	for _, status := range []int{-1, 0, 1, 99, 101, 600, 999, 1000} {
		rec := httptest.NewRecorder()
		info := &Info{RequestID: "id-1", Reporter: &to}
		w := NewWriter(rec, info)
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Server", "Caddy")
		w.WriteHeader(status)
		n, err := w.Write([]byte("issued"))
		m, err2 := w.ReadFrom(strings.NewReader("issued"))
		if n != 6 || m != 6 || err != nil || err2 != nil {
			t.Errorf("%d: writing on gives %d, %v and %d, %v", status, n, err, m, err2)
		}
		got := rec.Result()
		if body := rec.Body.String(); got.StatusCode != http.StatusBadGateway || strings.Contains(body, "issued") || !strings.Contains(body, "UPSTREAM_ERROR") {
			t.Errorf("%d is answered %d %s", status, got.StatusCode, body)
		}
		if h := got.Header; h.Get("Set-Cookie") != "" || h.Get("Server") == "" || h.Get("X-Request-Id") != "id-1" || info.outcome() != "upstream_error" {
			t.Errorf("%d: %s, %v", status, info.outcome(), h)
		}
	}
}

// No cache may store sensitive details, even if the upstream allows it. Other
// answers may be stored only if the upstream allows it.
func TestCacheControl(t *testing.T) {
	const withheld = "private, no-store"
	for _, c := range []struct {
		operation string
		sent      http.Header
		want      string
		left      int // headers besides Cache-Control and X-Request-Id
	}{
		{"get_card", nil, withheld, 0},
		{"get_card", http.Header{"Cache-Control": {""}}, withheld, 0},
		{"get_card", http.Header{"Cache-Control": {"max-age=60"}, "Etag": {`"1"`}}, "max-age=60", 1},
		{auth.SensitiveOperation, http.Header{
			"Cache-Control": {"public", "max-age=60"}, "Cdn-Cache-Control": {"max-age=60"}, "Acme-CDN-Cache-Control": {"max-age=60"},
			"Surrogate-Control": {"max-age=60"}, "X-Accel-Expires": {"60"}, "Expires": {"0"}, "Etag": {`"1"`}, "Last-Modified": {"x"},
			"Edge-Control": {"cache-maxage=60"}, "X-Varnish-Ttl": {"60"}, "X_cache_ttl": {"60"}, "X-Litespeed-Cache": {"public"}, "Cache-Tag": {"a"},
			"Surrogate-Key": {"a"}, "X-Cacheable": {"YES"}, "X-Edge-Expires": {"60"}, "Akamai-Cache-Control": {"max-age=60"},
			"Content-Type": {"application/json"},
		}, withheld, 1},
	} {
		rec := httptest.NewRecorder()
		w := NewWriter(rec, &Info{Operation: &auth.Operation{Name: c.operation}})
		maps.Copy(w.Header(), c.sent)
		w.WriteHeader(http.StatusOK)
		h := rec.Result().Header
		maps.DeleteFunc(h, func(_ string, values []string) bool { return values == nil })
		if got := h["Cache-Control"]; len(got) != 1 || got[0] != c.want || len(h) != 2+c.left {
			t.Errorf("%s, %v: the answer has %v", c.operation, c.sent, h)
		}
	}
}

// An answer without a type gets none, over each way of sending it. net/http would
// guess one: text/html where an issuer repeats what somebody has typed.
func TestTypeIsNotGuessed(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"with a head":    func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK); _, _ = io.WriteString(w, "<html>") },
		"without a head": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"copied":         func(w http.ResponseWriter) { _, _ = io.Copy(w, strings.NewReader("<html>")) },
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer(NewWriter(w, new(Info)))
		}))
		got, err := server.Client().Get(server.URL)
		server.Close()
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if types, typed := got.Header["Content-Type"]; typed {
			t.Errorf("%s: the type is %q", name, types)
		}
	}
}

// No header of an issuer can be taken for one of the gateway's, however it is spelled:
// libraries fold names in many ways. All others stay.
func TestIssuersCannotSpeakForTheGateway(t *testing.T) {
	own := rapid.SampledFrom([]string{
		headers.Forwarded, headers.Assertion, "X-Gateway-", "X-Gateway-Anything", headers.RequestID, "Trailer", "Date",
		auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature,
		"X-RateLimit-Limit", "X-RateLimit-Anything", "X-Rate-Limit-Reset", "X-RateLimit",
		"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Rate-Limit",
	})
	others := rapid.SampledFrom(strings.Fields(`Content-Language Etag Retry-After X-Card-Id X-Request-Ids X-Rate X-Gate X-Way
		X-Response-Time Response-Signature Request-Id Ratio Trail T X R 7-Date Link Set-Cookie Dates Update X-Date`))
	spelled := func(t *rapid.T, name string) string {
		separator := rapid.SampledFrom(strings.Fields("- _ . -- ~ !"))
		name = strings.ReplaceAll(name, "-", separator.Draw(t, "separator"))
		name = rapid.OneOf(rapid.Just(""), separator).Draw(t, "before") + name + rapid.OneOf(rapid.Just(""), separator).Draw(t, "behind")
		return rapid.SampledFrom([]func(string) string{strings.ToUpper, strings.ToLower, http.CanonicalHeaderKey, strings.TrimSpace}).Draw(t, "case")(name)
	}
	rapid.Check(t, func(t *rapid.T) {
		theirs, others := spelled(t, own.Draw(t, "own")), spelled(t, others.Draw(t, "other"))
		rec := httptest.NewRecorder()
		w := NewWriter(rec, &Info{})
		w.Header()[theirs], w.Header()[others] = []string{"theirs"}, []string{"theirs"}
		w.WriteHeader(http.StatusOK)
		if got := rec.Result().Header[theirs]; len(got) > 0 && got[0] == "theirs" {
			t.Errorf("the client gets %s", theirs)
		}
		if got := rec.Result().Header[others]; len(got) != 1 {
			t.Errorf("%s is dropped", others)
		}
	})
}

// X-Gateway-Forwarded is on a 503 of the gateway if the issuer has seen nothing of
// the request, but not if an answer had no room to be translated. An issuer's own
// header of this name is dropped.
func TestNotForwarded(t *testing.T) {
	budget := auth.Refuse(auth.OverBudget, "")
	for name, c := range map[string]struct {
		refusal *auth.Refusal
		behind  bool
		status  int
		want    string
	}{
		"before the issuer": {budget, false, http.StatusServiceUnavailable, "no"},
		"behind the issuer": {budget, true, http.StatusServiceUnavailable, ""},
		"the issuer's own":  {nil, true, http.StatusServiceUnavailable, ""},
		"another refusal":   {auth.Refuse(auth.UpstreamError, ""), true, http.StatusBadGateway, ""},
	} {
		rec := httptest.NewRecorder()
		info := &Info{Refusal: c.refusal, Upstream: meter.IssuerAnswer{Asked: time.Now()}, handedOn: c.behind}
		w := NewWriter(rec, info)
		w.Header().Set("X-Gateway-Forwarded", "no, says the issuer")
		w.Header()["x-gateway-assertion"] = []string{"what the issuer got"}
		w.WriteHeader(c.status)
		if got := rec.Header()["x-gateway-assertion"]; got != nil {
			t.Errorf("%s: the client gets what only the issuer may have: %q", name, got)
		}
		if got := rec.Header().Get("X-Gateway-Forwarded"); got != c.want {
			t.Errorf("%s: X-Gateway-Forwarded is %q, want %q", name, got, c.want)
		}
	}
}

// keeping is a client that ends the stream: Write fails, and its bytes are still read.
type keeping struct{ kept []byte }

func (k *keeping) Write(p []byte) (int, error) {
	k.kept = p
	return 0, errors.New("the stream was reset")
}

// TestNoBytesOfAnotherAnswer: over HTTP/2, net/http may send what it was given after Write has
// failed. No other answer is in its place then.
func TestNoBytesOfAnotherAnswer(t *testing.T) {
	memory := held.NewMemory("answer_budget", 64<<20, 1, 1)
	fill := func(text string) *held.Body {
		body := held.NewBody(memory.Reserve(share.Caller{Key: "k"}))
		if err := body.Write(bytes.Repeat([]byte(text), 20<<10)); err != nil {
			t.Fatal(err)
		}
		return body
	}
	for range 20 { // the pool may be emptied meanwhile
		var client keeping
		if (&signedAnswer{body: fill("a")}).pour(&client) == nil {
			t.Fatal("the failure is hidden")
		}
		others := []*held.Body{fill("b"), fill("b")}
		if bytes.Contains(client.kept, []byte("b")) || len(client.kept) == 0 {
			t.Fatal("another answer is in the bytes that may still be sent")
		}
		for _, other := range others {
			other.Release()
		}
	}
}
