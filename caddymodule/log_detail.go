package caddymodule

import (
	"strconv"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// explain returns the details of the store's verdict for the log, or "" if the
// reason alone is enough.
func (p *passage) explain(v *store.Verdict) string {
	switch v.Reason {
	case auth.TimestampOutOfWindow:
		return p.explainTimestamp()
	case auth.ReplayFloor:
		return "the store may have lost the nonces of that moment"
	case auth.SignatureMismatch:
		if p.judgement.Retired != nil {
			return explainRetired(p.judgement.Retired)
		}
	case auth.ScopeMissing:
		return "the request needs the scope " + p.request.Scope
	case auth.RateLimited:
		refusing := ratelimit.Tightest(v.States[:len(p.claim.Charges)])
		return "the bucket " + p.claim.Charges[refusing].Bucket + " is empty"
	}
	return ""
}

// explainTimestamp returns why rule 7 failed: the timestamp is not valid, it is
// too far from the clock, or it is older than the copy of the key to this store.
func (p *passage) explainTimestamp() string {
	stamp := p.request.Credentials.Unix
	switch off := p.claim.Now.Unix() - stamp; {
	case stamp == 0:
		return "X-Timestamp is not a number of ten digits"
	case auth.InWindow(p.claim.Now, stamp, p.site.rules.window):
		return "the nonces of that moment stayed in the store that the key was copied from"
	case off < 0:
		return "X-Timestamp is " + strconv.FormatInt(-off, 10) + " s ahead of our clock"
	default:
		return "X-Timestamp is " + strconv.FormatInt(off, 10) + " s behind our clock"
	}
}
