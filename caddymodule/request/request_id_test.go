package request

import (
	"net/http"
	"strings"
	"testing"
)

// A client's id is kept if it is valid and could hold no card number.
func TestRequestID(t *testing.T) {
	for _, id := range []string{"a", "A-1_z", strings.Repeat("x1y2", 16), "0b0e9a56-7f0b-4d57-9a5e-3f6a5e2f8a11"} {
		if got := requestID(http.Header{"X-Request-Id": {id}}); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for _, id := range []string{"", " ", "a b", "{env.HOME}", "ä", strings.Repeat("x", 65), "4111-1111-1111-1111", "41111111-1111-1111-aaaa-aaaaaaaaaaaa"} {
		if got := requestID(http.Header{"X-Request-Id": {id}}); got == id || !validRequestID(got) {
			t.Errorf("%q became %q", id, got)
		}
	}
	if got := requestID(http.Header{"X-Request-Id": {"a", "b"}}); got == "a" || got == "b" {
		t.Errorf("of two ids one was kept: %q", got)
	}
}

// An id of the gateway has fewer than 12 digits, for all random texts.
func TestNewRequestID(t *testing.T) {
	texts := []string{"234567234567AAAAAAAAAAAAAA", "A2A3A4A5A6A7A2A3A4A5A6A7AA", "A2A3A4A5A6A7A2A3A4A5A6AAAA"}
	got := newRequestID(func() string {
		text := texts[0]
		texts = texts[1:]
		return text
	})
	if got != "A2A3A4A5A6A7A2A3A4A5A6AAAA" {
		t.Errorf("got %s", got)
	}
}
