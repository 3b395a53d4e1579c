package caddymodule

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/card-gateway/card-gateway/assertion"
)

// readAssert reads the block assert of card_auth.
func (h *Auth) readAssert(d *caddyfile.Dispenser) error {
	if err := noMore(d); err != nil {
		return err
	}
	where := at(d)
	o := new(AssertOptions)
	h.Assert = o
	err := readBlock(d, "assert", []option{
		{name: "algorithm", read: func(d *caddyfile.Dispenser) (err error) {
			if o.Algorithm, err = oneArg(d, "EdDSA or HS256"); err != nil {
				return err
			}
			if _, err := assertion.ParseAlgorithm(o.Algorithm); err != nil {
				return d.WrapErr(err)
			}
			return nil
		}},
		{name: "key", instead: "several keys are several lines of one file or variable", read: func(d *caddyfile.Dispenser) (err error) {
			if o.Key, err = parseSecretRef(d); err != nil {
				return err
			}
			return noMore(d)
		}},
		textOption("issuer", "a name", &o.Issuer),
		textOption("audience", "the name of the issuer's service", &o.Audience),
	})
	switch {
	case err != nil:
		return err
	case o.Key == nil:
		return where(errNoAssertKey)
	case o.Audience == "":
		return where(errNoAudience)
	default:
		return nil
	}
}
