package keys

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

const (
	maxTenant      = 64
	maxDescription = 500
	maxListEntries = 256
)

// checkFields brings the fields into the form in which they are stored, or
// returns an [InvalidError] for the first one that is wrong.
func (k *Service) checkFields(f *store.Fields) error {
	if err := checkTenant(f.Tenant); err != nil {
		return err
	}
	if err := checkText("description", f.Description, maxDescription); err != nil {
		return err
	}
	if len(f.Scopes) > maxListEntries || len(f.AllowedIPs) > maxListEntries || len(f.Limits) > maxListEntries {
		return invalid("", "scopes, allowed_ips and limits hold at most %d entries each", maxListEntries)
	}
	if err := k.checkScopes(f.Scopes); err != nil {
		return invalid("scopes", "%v", err)
	}
	if err := checkAllowedIPs(f.AllowedIPs); err != nil {
		return invalid("allowed_ips", "%v", err)
	}
	if err := k.checkLimits(f.Limits); err != nil {
		return invalid("limits", "%v", err)
	}
	if err := checkVariant(f.CustomerVariant); err != nil {
		return invalid("customer_variant", "%v", err)
	}
	f.ExpiresAt, f.DebugUntil = f.ExpiresAt.UTC(), f.DebugUntil.UTC()
	return nil
}

func (k *Service) checkScopes(scopes []string) error {
	if len(scopes) == 0 {
		return errors.New(`at least one must be given, such as "cards:read"; "*" is all of them`)
	}
	if _, err := auth.ParseScopes(scopes); err != nil {
		return err
	}
	return k.opt.CheckScopes(scopes)
}

func checkAllowedIPs(list []string) error {
	if list == nil {
		return nil
	}
	if len(list) == 0 {
		return errors.New("an empty list would refuse every address; leave it out, or give null, to allow any")
	}
	_, err := auth.ParseAllowedIPs(list)
	return err
}

func (k *Service) checkLimits(limits map[string]json.RawMessage) error {
	overrides, err := ratelimit.ParseOverrides(limits)
	if err != nil {
		return err
	}
	if err := checkUntil(overrides); err != nil {
		return err
	}
	return k.opt.CheckLimits(limits)
}

func checkTenant(tenant string) error {
	ok := tenant != "" && len(tenant) <= maxTenant && strings.Trim(tenant, alphanumeric+"._-") == ""
	if !ok {
		return invalid("tenant", "want 1 to %d of A-Z a-z 0-9 . _ -", maxTenant)
	}
	return nil
}

func checkText(field, text string, most int) error {
	if len(text) > most {
		return invalid(field, "at most %d bytes, not %d", most, len(text))
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return invalid(field, "control characters and invalid UTF-8 are refused")
	}
	return nil
}

func checkVariant(variant string) error {
	switch variant {
	case "", "A", "B", "C":
		return nil
	}
	return errors.New(`want "A", "B" or "C"`)
}
