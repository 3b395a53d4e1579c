package caddymodule

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

// Whatever a handler does first, the answer carries what the gateway says.
func TestResponseWriterBegins(t *testing.T) {
	for name, first := range map[string]func(w *responseWriter) error{
		"WriteHeader": func(w *responseWriter) error { w.WriteHeader(http.StatusOK); return nil },
		"Write":       func(w *responseWriter) error { _, err := w.Write([]byte("x")); return err },
		"ReadFrom":    func(w *responseWriter) error { _, err := w.ReadFrom(strings.NewReader("x")); return err },
		"Flush":       func(w *responseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		rec := httptest.NewRecorder()
		w := newResponseWriter(rec, &requestInfo{RequestID: "id-1"})
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

// Neither an informational answer nor a trailer speaks in the gateway's place.
func TestResponseWriterDropsOwn(t *testing.T) {
	rec := httptest.NewRecorder()
	w := newResponseWriter(rec, &requestInfo{RequestID: "id-1", Operation: &auth.Operation{Name: auth.SensitiveOperation}})
	h := w.Header()
	h.Set("X-RateLimit-Limit", "9")
	h.Set("X-Request-Id", "upstream")
	h.Set("Link", "</a>")
	w.WriteHeader(http.StatusEarlyHints)
	if len(h) != 1 || h.Get("Link") == "" {
		t.Errorf("the informational answer has %v", h)
	}
	h["Trailer"] = []string{"X-Checksum, x-request-id", "X-Ratelimit-Reset"}
	w.WriteHeader(http.StatusOK)
	if got := h["Trailer"]; len(got) != 1 || got[0] != "X-Checksum" {
		t.Errorf("announced trailers are %q", got)
	}
}

// Sensitive details are kept by no cache, whatever the upstream says, and all
// else only where the upstream says so.
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
			"Content-Type": {"application/json"},
		}, withheld, 1},
	} {
		rec := httptest.NewRecorder()
		w := newResponseWriter(rec, &requestInfo{Operation: &auth.Operation{Name: c.operation}})
		maps.Copy(w.Header(), c.sent)
		w.WriteHeader(http.StatusOK)
		h := rec.Result().Header
		if got := h["Cache-Control"]; len(got) != 1 || got[0] != c.want || len(h) != 2+c.left {
			t.Errorf("%s, %v: the answer has %v", c.operation, c.sent, h)
		}
	}
}
