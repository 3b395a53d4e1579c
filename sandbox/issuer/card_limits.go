package issuer

import (
	"encoding/json"
	"net/http"
)

// limits are what a card may spend. The published interface does not show the
// fields; these are the sandbox's own.
type limits struct {
	PerTransaction money `json:"perTransaction"`
	Daily          money `json:"daily"`
	Monthly        money `json:"monthly"`
}

// newLimits are those of a new card.
var newLimits = limits{PerTransaction: 1_000_00, Daily: 2_500_00, Monthly: 10_000_00}

// limitsAnswer is the answer to both operations.
type limitsAnswer struct {
	CardID   string `json:"cardId"`
	Currency string `json:"currency"`
	limits
}

func (i *Issuer) getCardLimits(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, limitsAnswer{found.ID, found.Currency, found.limits}, nil
}

// updateCardLimits changes the limits that the body names and keeps the others.
func (i *Issuer) updateCardLimits(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	changed, bad := found.limits.change(c.body)
	if bad != nil {
		return 0, nil, bad
	}
	if found.Status == cardCancelled {
		return 0, nil, wrongState("the card is cancelled; its limits cannot be changed")
	}
	updated := stamp(c.now)
	found.limits, found.UpdatedAt = changed, &updated
	return http.StatusOK, limitsAnswer{found.ID, found.Currency, found.limits}, nil
}

// change returns the limits with those of the body, or what is wrong with it.
func (l limits) change(body []byte) (limits, *problem) {
	var given map[string]json.Number
	if err := json.Unmarshal(body, &given); err != nil || len(given) == 0 {
		return l, invalid(detail{"", `the body must be an object such as {"daily":500.00}`})
	}
	var wrong []detail
	for _, field := range []struct {
		name string
		at   *money
	}{{"perTransaction", &l.PerTransaction}, {"daily", &l.Daily}, {"monthly", &l.Monthly}} {
		number, ok := given[field.name]
		if !ok {
			continue
		}
		delete(given, field.name)
		amount, err := parseMoney(number.String())
		if err != nil || amount < 0 {
			wrong = append(wrong, detail{field.name, "must be a number, at least 0"})
			continue
		}
		*field.at = amount
	}
	for name := range given {
		wrong = append(wrong, detail{name, "is not a limit; there are perTransaction, daily and monthly"})
	}
	if wrong == nil && (l.PerTransaction > l.Daily || l.Daily > l.Monthly) {
		wrong = append(wrong, detail{"", "perTransaction may not be above daily, and daily not above monthly"})
	}
	if wrong != nil {
		return l, invalid(wrong...)
	}
	return l, nil
}
