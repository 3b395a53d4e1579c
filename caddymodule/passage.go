package caddymodule

import (
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A passage is the state of one request in card_auth. Its steps are in the files
// passage_*.go: admit, judge, body, settle, end. A step stores its results here
// for the next one.
type passage struct {
	info   requestInfo
	site   *site
	w      responseWriter
	r      *http.Request
	limits *RateLimitOptions
	sent   headerValues // to the upstream
	reader bodyReader

	request   auth.Request
	judgement auth.Judgement
	claim     store.Claim
	charges   [ratelimit.MaxCharges]ratelimit.Charge
	waited    time.Duration // for the body

	bodyRead    bool
	bodyDropped bool // it was not worth holding
	bodySum     [sha256.Size]byte
	bodySize    int64
}

// note logs and counts a refusal that can no longer be sent to the client.
func (p *passage) note(refusal *auth.Refusal) {
	p.info.refusal = refusal
	p.info.logRefusal(refusal)
}
