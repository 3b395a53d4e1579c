package auth_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

// TestPublishedMessages holds the texts of the published interface,
// Authentication error messages.
func TestPublishedMessages(t *testing.T) {
	want := map[auth.Reason]string{
		auth.MissingHeaders:       "Missing required authentication headers",
		auth.UnknownKey:           "Invalid API key",
		auth.KeyDisabled:          "API key is disabled",
		auth.KeyExpired:           "API key has expired",
		auth.KeyLocked:            "API key is locked due to excessive failures",
		auth.IPNotAllowed:         "Request from unauthorized IP address",
		auth.TimestampOutOfWindow: "Request timestamp is outside the allowed window",
		auth.ReplayedNonce:        "Replay detected (duplicate nonce)",
		auth.BodyHashMismatch:     "Body hash mismatch",
		auth.SignatureMismatch:    "Signature mismatch",
	}
	for reason, message := range want {
		if reason.Message() != message || reason.Status() != http.StatusUnauthorized || reason.Code() != "UNAUTHORIZED" {
			t.Errorf("%v: %d %s %q", reason, reason.Status(), reason.Code(), reason.Message())
		}
	}
	for _, reason := range auth.Reasons() {
		if _, published := want[reason]; !published && reason.Status() == http.StatusUnauthorized {
			t.Errorf("%v is a 401 without a published message", reason)
		}
	}
}

func TestReasonsAreAClosedSet(t *testing.T) {
	want := "accepted unknown_host not_found bad_target malformed_request method_not_allowed missing_headers unknown_key key_disabled key_expired key_locked " +
		"ip_not_allowed timestamp_out_of_window unsupported_media_type body_too_large body_timeout replayed_nonce " +
		"body_hash_mismatch signature_mismatch scope_missing replay_floor rate_limited invalid_body conflict store_unavailable over_budget " +
		"internal_error upstream_error upstream_timeout client_gone"
	var names []string
	for i, reason := range auth.Reasons() {
		names = append(names, reason.String())
		if reason != auth.Reason(i) || reason.Status() == 0 || reason != auth.Accepted && (reason.Code() == "" || reason.Message() == "") {
			t.Errorf("reason %d is %v, %d %s %q", i, reason, reason.Status(), reason.Code(), reason.Message())
		}
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got %s", got)
	}
	if outside := auth.Reason(len(names)); outside.String() != "internal_error" || outside.Status() != http.StatusInternalServerError {
		t.Errorf("a reason outside of the set is %v", outside)
	}
}

func TestFirstRuleDecides(t *testing.T) {
	order := []struct {
		rule   auth.Rules
		reason auth.Reason
	}{
		{auth.RuleHeaders, auth.MissingHeaders}, {auth.RuleKnown, auth.UnknownKey}, {auth.RuleEnabled, auth.KeyDisabled},
		{auth.RuleExpiry, auth.KeyExpired}, {auth.RuleLock, auth.KeyLocked}, {auth.RuleIP, auth.IPNotAllowed},
		{auth.RuleTimestamp, auth.TimestampOutOfWindow}, {auth.RuleNonce, auth.ReplayedNonce},
		{auth.RuleBodyHash, auth.BodyHashMismatch}, {auth.RuleSignature, auth.SignatureMismatch}, {auth.RuleScope, auth.ScopeMissing},
	}
	if got := auth.Rules(0).First(); got != auth.Accepted {
		t.Errorf("no rule: %v", got)
	}
	for subset := 1; subset < 1<<len(order); subset++ {
		var set auth.Rules
		want := auth.Accepted
		for i, o := range order {
			if subset>>i&1 == 1 {
				set |= o.rule
				if want == auth.Accepted {
					want = o.reason
				}
			}
		}
		if got := set.First(); got != want {
			t.Errorf("%b: %v, want %v", set, got, want)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	const all = auth.RuleIP | auth.RuleTimestamp | auth.RuleNonce
	tests := []struct {
		reason        auth.Reason
		failed, extra auth.Rules
		want          bool
	}{
		{auth.SignatureMismatch, auth.RuleSignature, 0, true},
		{auth.BodyHashMismatch, auth.RuleBodyHash, 0, true},
		{auth.TimestampOutOfWindow, auth.RuleTimestamp, 0, false},
		{auth.TimestampOutOfWindow, auth.RuleTimestamp | auth.RuleSignature, 0, true},
		{auth.TimestampOutOfWindow, auth.RuleTimestamp, auth.RuleTimestamp, true},
		{auth.TimestampOutOfWindow, auth.RuleTimestamp, auth.RuleNonce | auth.RuleIP, false},
		{auth.ReplayedNonce, auth.RuleNonce, 0, false},
		{auth.ReplayedNonce, auth.RuleNonce | auth.RuleSignature, 0, true},
		{auth.ReplayedNonce, auth.RuleNonce, auth.RuleNonce, true},
		{auth.IPNotAllowed, auth.RuleIP | auth.RuleSignature, 0, false},
		{auth.IPNotAllowed, auth.RuleIP, auth.RuleIP, true},
		{auth.ScopeMissing, auth.RuleScope, all, false},
		{auth.KeyDisabled, auth.RuleEnabled | auth.RuleSignature, all, false},
		{auth.KeyExpired, auth.RuleExpiry | auth.RuleSignature, all, false},
		{auth.KeyLocked, auth.RuleLock | auth.RuleSignature, all, false},
		{auth.UnknownKey, auth.RuleKnown, all, false},
		{auth.MissingHeaders, auth.RuleHeaders, all, false},
		{auth.ReplayFloor, 0, all, false},
		{auth.RateLimited, 0, all, false},
		{auth.Accepted, 0, all, false},
	}
	for _, test := range tests {
		if got := auth.Counts(test.reason, test.failed, test.extra); got != test.want {
			t.Errorf("%v, failed %b, extra %b: %v", test.reason, test.failed, test.extra, got)
		}
	}
}

func TestRefusalKeepsTheLogFromTheClient(t *testing.T) {
	cause := errors.New("the cause")
	r := auth.Refuse(auth.StoreUnavailable, "the note")
	r.Cause = cause
	if got := r.Error(); got != "store_unavailable: the note: the cause" || !errors.Is(r, cause) {
		t.Errorf("the log reads %q", got)
	}
	if got := r.Text(); got != auth.StoreUnavailable.Message() {
		t.Errorf("the client reads %q", got)
	}
	r.Message = "another text"
	if got := r.Text(); got != "another text" {
		t.Errorf("the client reads %q", got)
	}
}
