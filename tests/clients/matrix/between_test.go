package matrix

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A seen is an answer on its way, the number-th to the client.
type seen struct {
	number int
	status int
	header http.Header
	body   []byte
}

// alterations are what may happen between client and gateway.
var alterations = map[string]func(s *seen, first seen){
	"":            func(*seen, seen) {},
	"a byte":      func(s *seen, _ seen) { s.body[len(s.body)/2] ^= 1 },
	"a byte more": func(s *seen, _ seen) { s.body = append(s.body, ' ') },
	"body and hash": func(s *seen, _ seen) {
		s.body = []byte("{}")
		s.header.Set(auth.HeaderAnswerHash, auth.BodyHash(s.body))
	},
	"the status":             func(s *seen, _ seen) { s.status = http.StatusCreated },
	"the request id":         func(s *seen, _ seen) { s.header.Set("X-Request-Id", "another") },
	"the time":               func(s *seen, _ seen) { s.header.Set(auth.HeaderAnsweredAt, "1750000001") },
	"no signature":           func(s *seen, _ seen) { s.header.Del(auth.HeaderAnswerSignature) },
	"nothing of a signature": func(s *seen, _ seen) { strip(s.header) },
	"the answer before":      func(s *seen, first seen) { *s = first },
	"a refusal at first":     func(s *seen, _ seen) { s.refuse(http.StatusServiceUnavailable) },
	"a limit at first":       func(s *seen, _ seen) { s.refuse(http.StatusTooManyRequests) },
	"no signature at first": func(s *seen, _ seen) {
		if s.number == 1 {
			strip(s.header)
		}
	},
	"a clock at first": func(s *seen, _ seen) {
		s.forge(http.StatusUnauthorized, `{"success":false,"error":{"code":"UNAUTHORIZED","message":"Request timestamp is outside the allowed window"}}`)
	},
	"not forwarded at first": func(s *seen, _ seen) {
		s.forge(http.StatusBadGateway, `{"success":false,"error":{"code":"UPSTREAM_ERROR","message":"x","accepted":true,"forwarded":false}}`)
	},
	"a replay instead of forwarding, at first": func(*seen, seen) {},
	"an error of someone":                      func(s *seen, _ seen) { strip(s.header); s.status = http.StatusBadGateway },
	"a redirect of someone": func(s *seen, _ seen) {
		strip(s.header)
		s.status = http.StatusFound
		s.header.Set("Location", "/elsewhere")
	},
	"the header names, lower": func(s *seen, _ seen) { lower(s.header) },
}

// refuse makes the first answer an unsigned refusal that may be repeated.
func (s *seen) refuse(status int) {
	if s.number == 1 {
		*s = seen{status: status, header: http.Header{"Retry-After": {"0"}, "X-Gateway-Forwarded": {"no"}}}
	}
}

// forge makes the first answer another one, without a signature.
func (s *seen) forge(status int, body string) {
	if s.number == 1 {
		*s = seen{status: status, header: http.Header{"Content-Type": {"application/json"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}}, body: []byte(body)}
	}
}

// replayed is the answer to a used nonce, which anybody can write.
func replayed() seen {
	var s seen
	s.number = 1
	s.forge(http.StatusUnauthorized, `{"success":false,"error":{"code":"UNAUTHORIZED","message":"Replay detected (duplicate nonce)"}}`)
	return s
}

func strip(h http.Header) {
	for _, name := range []string{auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature} {
		h.Del(name)
	}
}

func lower(h http.Header) {
	for _, name := range []string{"X-Request-Id", auth.HeaderAnsweredAt, auth.HeaderAnswerHash, auth.HeaderAnswerSignature} {
		h[strings.ToLower(name)] = h[http.CanonicalHeaderKey(name)]
		delete(h, http.CanonicalHeaderKey(name))
	}
}

// A between forwards requests to the gateway and alters the answers.
type between struct {
	gateway string
	plain   http.Transport
	alter   func(s *seen, first seen)
	replays bool // the first request is not forwarded

	mu      sync.Mutex
	first   seen
	number  int
	accepts []string // Accept-Encoding of each request
	stamps  []string // X-Timestamp of each request
}

func startBetween(t *testing.T, gateway, alteration string) (b *between, base string) {
	t.Helper()
	b = &between{gateway: gateway, alter: alterations[alteration], replays: alteration == "a replay instead of forwarding, at first"}
	if b.alter == nil {
		t.Fatalf("there is no alteration %q", alteration)
	}
	b.plain.DisableCompression = true
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	t.Cleanup(b.plain.CloseIdleConnections)
	return b, server.URL
}

func (b *between) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	accepts := strings.Join(r.Header.Values("Accept-Encoding"), ",")
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := replayed(), error(nil)
	if b.number > 0 || !b.replays {
		s, err = b.forward(r)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	b.accepts = append(b.accepts, accepts)
	b.stamps = append(b.stamps, r.Header.Get(auth.HeaderTimestamp))
	b.number++
	s.number = b.number
	if s.number == 1 {
		b.first = seen{1, s.status, s.header.Clone(), bytes.Clone(s.body)}
	}
	b.alter(&s, b.first)
	s.header.Del("Content-Length")
	for name, values := range s.header {
		w.Header()[name] = values
	}
	w.WriteHeader(s.status)
	_, _ = w.Write(s.body)
}

func (b *between) forward(r *http.Request) (seen, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return seen{}, err
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+b.gateway+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		return seen{}, err
	}
	out.Header = r.Header
	answer, err := b.plain.RoundTrip(out)
	if err != nil {
		return seen{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return seen{status: answer.StatusCode, header: answer.Header, body: text}, err
}
