package explain

import "github.com/card-gateway/card-gateway/auth"

// Explain returns what is wrong with a request by rules 7 to 10, the first rule
// first. The key's secrets are tried with at most [MaxVariants] strings to
// sign. The number of attempts depends on the request and on the number of
// secrets, not on what they find.
func Explain(c *Case) []Finding {
	e := &explainer{Case: c}
	if c.holdsSecret() {
		e.add(SecretSent, "")
	}
	if c.Failed.Has(auth.RuleTimestamp) {
		e.timestamp()
	}
	if c.Failed.Has(auth.RuleNonce) {
		e.add(NonceUsed, "")
	}
	if c.Failed.Has(auth.RuleBodyHash) && c.Body != nil {
		e.body()
	}
	if c.Failed.Has(auth.RuleSignature) && c.Key != nil {
		e.signature()
	}
	return e.found
}
