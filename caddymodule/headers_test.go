package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestCleanHeaders(t *testing.T) {
	gone := []string{
		"X-Api-Key", "X-Timestamp", "X-Nonce", "X-Body-Hash", "X-Signature", "X_Signature", "x-signature", "X.Nonce",
		"X-Gateway-Tenant", "x-gateway-tenant", "X_Gateway_Tenant", "X-Gateway_Key-Id", "X.Gateway.Scopes", "X-GATEWAY-ANYTHING",
		"Expect", "Te", "Trailer", "Upgrade", "Connection", "Keep-Alive", "Early-Data", "Http2-Settings",
		"X-Http-Method-Override", "X_HTTP_METHOD_OVERRIDE", "X-Http-Method", "X-Method-Override",
		"X-Original-Url", "X-Rewrite-Url", "Authorization", "Proxy-Authorization", "X-Request-Id",
		"Forwarded", "X-Real-Ip", "X_Real_IP", "True-Client-Ip", "Cf-Connecting-Ip",
	}
	kept := []string{"Accept", "Content-Type", "Cookie", "User-Agent", "X-Customer", "X-Gatewayed", "X-Forwarded-For", "Traceparent"}
	h := make(http.Header)
	for _, name := range slices.Concat(gone, kept) {
		h[name] = []string{"v"}
	}
	cleanHeaders(h)
	for _, name := range gone {
		if _, ok := h[name]; ok {
			t.Errorf("%s is forwarded", name)
		}
	}
	for _, name := range kept {
		if _, ok := h[name]; !ok {
			t.Errorf("%s is lost", name)
		}
	}
}

func TestIdempotencyKeyIsKeptButNoLeaveToRetry(t *testing.T) {
	h := http.Header{"Idempotency-Key": {"a"}, "X-Idempotency-Key": {"b"}}
	cleanHeaders(h)
	if h["idempotency-key"][0] != "a" || h["x-idempotency-key"][0] != "b" || h.Get("Idempotency-Key") != "" {
		t.Errorf("got %v", h)
	}
}

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

// An id of our own has no 12 digits, whatever the random texts are.
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
