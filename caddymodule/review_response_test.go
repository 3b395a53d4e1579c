package caddymodule

import (
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
