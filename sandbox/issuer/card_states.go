package issuer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// The published interface shows one move, from frozen by Unfreeze to active. The
// others are the sandbox's own: each operation needs a card in one of some states,
// and a card that is cancelled stays so. An operation that finds the state which
// it would make answers 200 and changes nothing.

func (i *Issuer) activateCard(c *call) (int, any, *problem) {
	return i.moveCard(c, cardActive, cardInactive)
}

func (i *Issuer) freezeCard(c *call) (int, any, *problem) {
	return i.moveCard(c, cardFrozen, cardActive)
}

func (i *Issuer) unfreezeCard(c *call) (int, any, *problem) {
	return i.moveCard(c, cardActive, cardFrozen)
}

func (i *Issuer) cancelCard(c *call) (int, any, *problem) {
	return i.moveCard(c, cardCancelled, cardInactive, cardActive, cardFrozen)
}

// moveCard changes the state of a card. It answers 200 without a body if the card
// is in one of the states from, or in the state to already, and 409 otherwise.
func (i *Issuer) moveCard(c *call, to string, from ...string) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	if found.Status != to {
		if bad := found.need("become "+to, from...); bad != nil {
			return 0, nil, bad
		}
		updated := stamp(c.now)
		found.Status, found.UpdatedAt = to, &updated
	}
	return http.StatusOK, nil, nil
}

// need returns a problem unless the card is in one of the states.
func (ca *card) need(what string, states ...string) *problem {
	if slices.Contains(states, ca.Status) {
		return nil
	}
	return wrongState(fmt.Sprintf("the card is %s; only a card that is %s can %s", ca.Status, strings.Join(states, " or "), what))
}

var replaceReasons = []string{"lost", "stolen", "damaged", "expired"}

// replaceRequest is the body of Replace Card. Both are optional.
type replaceRequest struct {
	Reason          string            `json:"reason"`
	ShippingAddress map[string]string `json:"shippingAddress"`
}

// replaceAnswer is the Issue Card response for the new card, and the old one.
type replaceAnswer struct {
	issueAnswer
	ReplacedCardID string `json:"replacedCardId"`
}

// replaceCard cancels a card and issues one like it, with its balance and limits.
func (i *Issuer) replaceCard(c *call) (int, any, *problem) {
	old, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	var req replaceRequest
	if len(c.body) > 0 && json.Unmarshal(c.body, &req) != nil {
		return 0, nil, invalid(detail{"", `the body must be empty or an object such as {"reason":"lost"}`})
	}
	if req.Reason != "" && !slices.Contains(replaceReasons, req.Reason) {
		return 0, nil, invalid(detail{"reason", "must be one of " + strings.Join(replaceReasons, ", ")})
	}
	if bad := old.need("be replaced", cardInactive, cardActive, cardFrozen); bad != nil {
		return 0, nil, bad
	}
	t := i.tenantLocked(c.tenant)
	if req.ShippingAddress == nil {
		req.ShippingAddress = old.shipping
	}
	again := issueRequest{CustomerID: old.CustomerID, ProductID: old.ProductID, Currency: old.Currency, ShippingAddress: req.ShippingAddress}
	of := productByID(old.ProductID)
	if wrong := again.checkAgainst(of); wrong != nil {
		return 0, nil, invalid(wrong...)
	}
	made := again.card(c, t.customers[old.CustomerID], of, len(t.cardOrder))
	made.replaces, made.limits, made.Balance = old.ID, old.limits, old.Balance
	if bad := i.keepCard(t, made); bad != nil {
		return 0, nil, bad
	}
	updated := stamp(c.now)
	old.Status, old.Balance, old.UpdatedAt = cardCancelled, 0, &updated
	return http.StatusCreated, replaceAnswer{made.answer(), old.ID}, nil
}

var pinForm = regexp.MustCompile(`^[0-9]{4}$`)

// setCardPIN takes a PIN of four digits and keeps nothing of it.
func (i *Issuer) setCardPIN(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	var req struct {
		PIN string `json:"pin"`
	}
	if err := json.Unmarshal(c.body, &req); err != nil || !pinForm.MatchString(req.PIN) {
		return 0, nil, invalid(detail{"pin", "must be a string of four digits"})
	}
	if bad := found.need("get a PIN", cardActive, cardFrozen); bad != nil {
		return 0, nil, bad
	}
	updated := stamp(c.now)
	found.UpdatedAt = &updated
	return http.StatusOK, nil, nil
}
