package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The bounds hold for a configuration in JSON as well.
func TestSelfOverlap(t *testing.T) {
	const day = 24 * time.Hour
	for overlap, good := range map[time.Duration]bool{
		time.Hour - 1: false, time.Hour: true, day: true, 90 * day: true, 90*day + 1: false, -day: false, 0: false,
	} {
		h := Self{Overlap: caddy.Duration(overlap)}
		if err := h.Validate(); (err == nil) != good {
			t.Errorf("an overlap of %s: %v", overlap, err)
		}
	}
}

// Where nobody has judged a request, nobody may know whose key it names.
func TestSelfWithoutAuth(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	h := &Self{Rotate: true, log: zap.New(core)}
	for _, own := range []string{"GET /gateway/v1/key", "POST /gateway/v1/echo", "POST /gateway/v1/key/rotate"} {
		method, path, _ := strings.Cut(own, " ")
		w := httptest.NewRecorder()
		if err := h.ServeHTTP(w, httptest.NewRequest(method, path, nil), nil); err != nil || w.Code != http.StatusInternalServerError {
			t.Errorf("%s without card_auth is answered %d %s, %v", own, w.Code, w.Body, err)
		}
	}
	if lines.Len() != 3 || !strings.Contains(lines.All()[0].Message, "put card_auth in front of it") {
		t.Errorf("the log says %+v", lines.All())
	}
}
