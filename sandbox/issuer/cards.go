package issuer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Card states of the published interface.
const (
	cardInactive  = "inactive"
	cardActive    = "active"
	cardFrozen    = "frozen"
	cardCancelled = "cancelled"
)

// A card is the card record of the published interface.
type card struct {
	ID               string  `json:"id"`
	CustomerID       string  `json:"customer_id"`
	ProductID        string  `json:"product_id"`
	ProductName      string  `json:"product_name"`
	Provider         string  `json:"provider"`
	CardType         string  `json:"card_type"`
	CardNumberMasked string  `json:"card_number_masked"`
	Currency         string  `json:"currency"`
	Status           string  `json:"status"`
	Balance          money   `json:"balance"`
	CreatedAt        string  `json:"created_at"`
	UpdatedAt        *string `json:"updated_at"`

	number   string
	issued   time.Time
	shipping map[string]string
	replaces string // the card in whose place this one was issued
	limits   limits
	topUps   []*topUp // in the order of their creation
}

// money is an amount in hundredths; it is written as a decimal number.
type money int64

func (m money) MarshalJSON() ([]byte, error) {
	text := strconv.FormatFloat(float64(m)/100, 'f', 2, 64)
	return []byte(text), nil
}

// issueRequest is the Issue Card request of the published interface.
type issueRequest struct {
	CustomerID      string            `json:"customerId"`
	ProductID       string            `json:"productId"`
	Currency        string            `json:"currency"`
	ShippingAddress map[string]string `json:"shippingAddress"`
}

// issueAnswer is the Issue Card response (201).
type issueAnswer struct {
	CardID     string `json:"cardId"`
	CustomerID string `json:"customerId"`
	ProductID  string `json:"productId"`
	CardType   string `json:"cardType"`
	Currency   string `json:"currency"`
	State      string `json:"state"`
	CreatedAt  string `json:"createdAt"`
}

func (i *Issuer) issueCard(c *call) (int, any, *problem) {
	var req issueRequest
	if err := json.Unmarshal(c.body, &req); err != nil {
		return 0, nil, invalid(detail{"", "the body must be one JSON object as published for Issue Card"})
	}
	if wrong := req.check(); wrong != nil {
		return 0, nil, invalid(wrong...)
	}
	t := i.tenantLocked(c.tenant)
	owner, of := t.customers[strings.ToLower(req.CustomerID)], productByID(strings.ToLower(req.ProductID))
	if owner == nil {
		return 0, nil, notFound("customer", req.CustomerID)
	}
	if of == nil {
		return 0, nil, notFound("product", req.ProductID)
	}
	if wrong := req.checkAgainst(of); wrong != nil {
		return 0, nil, invalid(wrong...)
	}
	issued := req.card(c, owner, of, len(t.cardOrder))
	if bad := i.keepCard(t, issued); bad != nil {
		return 0, nil, bad
	}
	return http.StatusCreated, issued.answer(), nil
}

// keepCard stores a new card, or returns a problem if there are too many.
func (i *Issuer) keepCard(t *tenant, issued *card) *problem {
	if i.cards >= i.opt.MaxCards {
		return full("cards")
	}
	t.cards[issued.ID] = issued
	t.cardOrder = append(t.cardOrder, issued)
	i.cards++
	return nil
}

func (ca *card) answer() issueAnswer {
	return issueAnswer{ca.ID, ca.CustomerID, ca.ProductID, ca.CardType, ca.Currency, ca.Status, ca.CreatedAt}
}

// check returns the faults of the request that need no product to find.
func (r *issueRequest) check() []detail {
	var wrong []detail
	if !isUUID(r.CustomerID) {
		wrong = append(wrong, detail{"customerId", "must be a UUID"})
	}
	if !isUUID(r.ProductID) {
		wrong = append(wrong, detail{"productId", "must be a UUID"})
	}
	if r.Currency == "" {
		wrong = append(wrong, detail{"currency", "is required"})
	}
	return wrong
}

// checkAgainst returns the faults of the request that the product does not allow.
func (r *issueRequest) checkAgainst(p *product) []detail {
	var wrong []detail
	if !slices.Contains(p.Currencies, r.Currency) {
		wrong = append(wrong, detail{"currency", fmt.Sprintf("must be a currency of this product: %s", strings.Join(p.Currencies, ", "))})
	}
	if p.CardType != "physical" {
		return wrong
	}
	for _, name := range []string{"addressLine1", "city", "postalCode", "country"} {
		if r.ShippingAddress[name] == "" {
			wrong = append(wrong, detail{"shippingAddress." + name, "is required for a physical card"})
		}
	}
	return wrong
}

// card returns the nth card of a tenant. A virtual card is active at once, a
// physical card after its holder has activated it.
func (r *issueRequest) card(c *call, owner *customer, of *product, nth int) *card {
	id := uuidOf("card", c.tenant, owner.ID, strconv.Itoa(nth))
	made := &card{
		ID: id, CustomerID: owner.ID, ProductID: of.ID, ProductName: of.Name, Provider: of.Provider,
		CardType: of.CardType, Currency: r.Currency, Status: cardActive,
		CreatedAt: stamp(c.now), number: cardNumberOf(id), issued: c.now.UTC(),
		shipping: r.ShippingAddress, limits: newLimits,
	}
	made.CardNumberMasked = "**** **** **** " + made.number[12:]
	if of.CardType == "physical" {
		made.Status = cardInactive
	}
	made.Balance = 5_000_00
	for _, tx := range transactionsOf(made) {
		made.Balance -= tx.SettleAmount
	}
	return made
}

// cardFilters are the query parameters of the list of cards, beside those of a page.
var cardFilters = map[string]func(*card) *string{
	"customerId": func(ca *card) *string { return &ca.CustomerID },
	"productId":  func(ca *card) *string { return &ca.ProductID },
	"cardType":   func(ca *card) *string { return &ca.CardType },
	"currency":   func(ca *card) *string { return &ca.Currency },
	"status":     func(ca *card) *string { return &ca.Status },
}

func (i *Issuer) listCards(c *call) (int, any, *problem) {
	all := i.tenantLocked(c.tenant).cardOrder
	for _, ca := range all {
		ca.book(c.now)
	}
	query := c.URL.Query()
	shown, p, bad := paginate(query, matching(query, all, cardFilters))
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, page{shown, p}, nil
}

// cardOf returns the card that the path names, or a problem.
func (i *Issuer) cardOf(c *call) (*card, *problem) {
	id := c.PathValue("id")
	found := i.tenantLocked(c.tenant).cards[id]
	if found == nil {
		return nil, notFound("card", id)
	}
	found.book(c.now)
	return found, nil
}

func (i *Issuer) getCard(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, found, nil
}

// sensitive is the sensitive card details of the published interface, without
// the cardholder's name, whose field it does not show.
type sensitive struct {
	ID         string `json:"id"`
	CardNumber string `json:"cardNumber"`
	CVV        string `json:"cvv"`
	ExpiryDate string `json:"expiryDate"`
	State      string `json:"state"`
}

func (i *Issuer) getSensitiveCard(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	seed := seedOf("cvv", found.ID)
	n := found.number
	return http.StatusOK, sensitive{
		ID:         found.ID,
		CardNumber: n[0:4] + " " + n[4:8] + " " + n[8:12] + " " + n[12:],
		CVV:        fmt.Sprintf("%03d", binary.BigEndian.Uint16(seed[:])%1000),
		ExpiryDate: found.issued.AddDate(4, 0, 0).Format("01/06"),
		State:      strings.ToUpper(found.Status[:1]) + found.Status[1:],
	}, nil
}

// balance is the sandbox's answer to Get Card Balance. The published interface
// declares no body for it.
type balance struct {
	CardID   string `json:"cardId"`
	Balance  money  `json:"balance"`
	Currency string `json:"currency"`
}

func (i *Issuer) getCardBalance(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, balance{found.ID, found.Balance, found.Currency}, nil
}
