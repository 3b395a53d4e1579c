package caddymodule

import (
	"strconv"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// details says for the answer to a signed caller which scope the request needs,
// or which limit was reached.
func (p *passage) details(v *store.Verdict) []auth.FieldError {
	switch v.Reason {
	case auth.ScopeMissing:
		if p.info.Operation.Name == auth.OtherOperation {
			return detail("no_operation", "No operation of this gateway has this method and path; look for a typing mistake. Only a key with the scope * may use other paths")
		}
		return detail("scope", "The operation "+p.info.Operation.Name+" needs the scope "+p.request.Scope+" for this method and path")
	case auth.RateLimited:
		state := &v.States[ratelimit.Tightest(v.States[:len(p.claim.Charges)])]
		return detail("limit", "The limit "+state.Bucket+" of this key is used up; it holds "+strconv.FormatInt(state.Limit, 10)+" at most")
	}
	return nil
}
