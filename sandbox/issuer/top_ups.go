package issuer

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The states of a top-up, which the published interface does not show: pending,
// and after decisionTime completed, which is when the balance grows, or failed, if
// its reference begins with failingReference.
const (
	topUpPending   = "pending"
	topUpCompleted = "completed"
	topUpFailed    = "failed"

	failingReference = "fail"
)

// maxTopUp is the largest amount of one top-up.
const maxTopUp money = 10_000_00

// A topUp is the sandbox's top-up record; the published interface shows no fields.
type topUp struct {
	TopUpID     string  `json:"topUpId"`
	CardID      string  `json:"cardId"`
	Amount      money   `json:"amount"`
	Currency    string  `json:"currency"`
	Status      string  `json:"status"`
	Reference   *string `json:"reference"`
	CreatedAt   string  `json:"createdAt"`
	CompletedAt *string `json:"completedAt"`

	due time.Time
}

// topUpRequest is the body of Top Up Card.
type topUpRequest struct {
	Amount    json.Number `json:"amount"`
	Currency  string      `json:"currency"`
	Reference *string     `json:"reference"`
}

// read returns the amount, or what is wrong with the request for this card.
func (r *topUpRequest) read(body []byte, of *card) (money, *problem) {
	if err := json.Unmarshal(body, r); err != nil {
		return 0, invalid(detail{"", `the body must be an object such as {"amount":25.00,"currency":"EUR"}`})
	}
	var wrong []detail
	amount, err := parseMoney(r.Amount.String())
	if err != nil || amount <= 0 || amount > maxTopUp {
		wrong = append(wrong, detail{"amount", "must be a number above 0 and at most 10000.00"})
	}
	if r.Currency != of.Currency {
		wrong = append(wrong, detail{"currency", "must be the currency of the card, " + of.Currency})
	}
	if wrong != nil {
		return 0, invalid(wrong...)
	}
	return amount, nil
}

func (i *Issuer) topUpCard(c *call) (int, any, *problem) {
	of, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	var req topUpRequest
	amount, bad := req.read(c.body, of)
	if bad != nil {
		return 0, nil, bad
	}
	if of.Status != cardActive {
		return 0, nil, wrongState("the card is " + of.Status + "; only an active card can be topped up")
	}
	t := i.tenantLocked(c.tenant)
	if bad := i.keepLocked(c.tenant, t, "top-ups"); bad != nil {
		return 0, nil, bad
	}
	made := &topUp{
		TopUpID: uuidOf("top-up", of.ID, strconv.Itoa(len(of.topUps))), CardID: of.ID, Amount: amount, Currency: of.Currency,
		Status: topUpPending, Reference: req.Reference, CreatedAt: stamp(c.now), due: c.now.Add(decisionTime),
	}
	t.topUps[made.TopUpID] = made
	of.topUps = append(of.topUps, made)
	return http.StatusCreated, made, nil
}

// book moves the top-ups on that have taken their time.
func (ca *card) book(now time.Time) {
	for _, u := range ca.topUps {
		if u.Status != topUpPending || now.Before(u.due) {
			continue
		}
		if u.Reference != nil && strings.HasPrefix(strings.ToLower(*u.Reference), failingReference) {
			u.Status = topUpFailed
			continue
		}
		completed := stamp(u.due)
		u.Status, u.CompletedAt = topUpCompleted, &completed
		ca.Balance += u.Amount
	}
}

var topUpFilters = map[string]func(*topUp) *string{
	"status":    func(u *topUp) *string { return &u.Status },
	"reference": func(u *topUp) *string { return u.Reference },
}

// listTopUps lists the top-ups of a card, the newest first.
func (i *Issuer) listTopUps(c *call) (int, any, *problem) {
	of, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	query := c.URL.Query()
	all := matching(query, of.topUps, topUpFilters)
	slices.Reverse(all)
	shown, p, bad := paginate(query, all)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, page{shown, p}, nil
}

func (i *Issuer) getTopUp(c *call) (int, any, *problem) {
	t, id := i.tenantLocked(c.tenant), c.PathValue("id")
	found := t.topUps[id]
	if found == nil {
		return 0, nil, notFound("top-up", id)
	}
	t.cards[found.CardID].book(c.now)
	return http.StatusOK, found, nil
}
