package caddymodule

import "github.com/card-gateway/card-gateway/auth"

// dryRunLetsPass reports whether a dry run only reports a refusal for the reason
// and forwards the request. Ambiguous and oversized requests are refused even
// then, and a body that could not be read cannot be forwarded.
func dryRunLetsPass(reason auth.Reason) bool {
	switch reason {
	case auth.Accepted, auth.UnknownHost, auth.NotFound, auth.BadTarget, auth.MalformedRequest, auth.BodyTooLarge, auth.BodyTimeout, auth.OverBudget, auth.ClientGone,
		auth.InvalidBody, auth.InternalError, auth.UpstreamError, auth.UpstreamTimeout:
		return false
	default:
		return true
	}
}

// wouldRefuse holds the outcomes of a dry run by reason.
var wouldRefuse = func() []string {
	names := make([]string, len(auth.Reasons()))
	for _, reason := range auth.Reasons() {
		names[reason] = "would_refuse_" + reason.String()
	}
	return names
}()
