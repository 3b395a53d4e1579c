package caddymodule

import (
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// A passage is the way of one request through card_auth: target, judge, body,
// settle. It carries what one step leaves for the next.
type passage struct {
	info   requestInfo
	site   *site
	w      *responseWriter
	r      *http.Request
	limits *RateLimit

	request   auth.Request
	judgement auth.Judgement
	claim     store.Claim
	charges   [ratelimit.MaxCharges]ratelimit.Charge
	waited    time.Duration // for the body

	bodyRead    bool
	bodyDropped bool // it was not worth holding
	bodySum     [sha256.Size]byte
}

// note tells operators of a refusal that the client can no longer be told of.
func (p *passage) note(refusal *auth.Refusal) {
	p.info.refusal = refusal
	p.info.logRefusal(refusal)
}
