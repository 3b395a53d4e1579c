package caddymodule

import (
	"net/http"
	"slices"
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
	for _, id := range []string{"a", "A-1_z", "0123456789012345678901234567890123456789012345678901234567890123"} {
		if got := requestID(http.Header{"X-Request-Id": {id}}); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
	for _, id := range []string{"", " ", "a b", "{env.HOME}", "ä", "01234567890123456789012345678901234567890123456789012345678901234"} {
		if got := requestID(http.Header{"X-Request-Id": {id}}); got == id || !validRequestID(got) {
			t.Errorf("%q became %q", id, got)
		}
	}
	if got := requestID(http.Header{"X-Request-Id": {"a", "b"}}); got == "a" || got == "b" {
		t.Errorf("of two ids one was kept: %q", got)
	}
}
