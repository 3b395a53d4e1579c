package caddymodule

// RateLimitOptions are the options of card_rate_limit.
type RateLimitOptions struct {
	// Decide and report, but refuse nothing. Default: false.
	DryRun bool `json:"dry_run,omitempty"`
	// Also send the headers RateLimit and RateLimit-Policy of the IETF draft.
	// Default: false.
	IETFHeaders bool `json:"ietf_headers,omitempty"`
}
