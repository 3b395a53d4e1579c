package issuer

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A transaction is the transaction record of the published interface, which does
// not show the values of type, subType and status. They are the sandbox's own.
type transaction struct {
	TransactionID         string  `json:"transactionId"`
	CardID                string  `json:"cardId"`
	CustomerID            string  `json:"customerId"`
	OriginalTransactionID *string `json:"originalTransactionId"`
	LocalCurrency         string  `json:"localCurrency"`
	LocalAmount           money   `json:"localAmount"`
	AuthorizedAmount      money   `json:"authorizedAmount"`
	AuthorizedCurrency    string  `json:"authorizedCurrency"`
	AuthorizationCode     string  `json:"authorizationCode"`
	AuthorizedAt          string  `json:"authorizedAt"`
	Fee                   money   `json:"fee"`
	FeeCurrency           string  `json:"feeCurrency"`
	CrossborderFee        money   `json:"crossborderFee"`
	CrossborderCurrency   string  `json:"crossborderFeeCurrency"`
	SettleAmount          money   `json:"settleAmount"`
	SettleCurrency        string  `json:"settleCurrency"`
	SettleDate            string  `json:"settleDate"`
	MerchantName          string  `json:"merchantName"`
	MerchantCategoryCode  string  `json:"merchantCategoryCode"`
	MerchantCountry       string  `json:"merchantCountry"`
	MerchantCity          string  `json:"merchantCity"`
	Type                  string  `json:"type"`
	SubType               string  `json:"subType"`
	Status                string  `json:"status"`
	Description           string  `json:"description"`

	at time.Time
}

// transactionsPerCard is the number of transactions that a new card has.
const transactionsPerCard = 12

// history is the moment at which the transactions begin. They depend on the
// card's id alone, so their dates do not follow the day the card was issued.
var history = time.Date(2026, time.January, 1, 9, 0, 0, 0, time.UTC)

var merchants = []struct{ name, category, city, country string }{
	{"Corner Bakery", "5462", "Berlin", "DE"},
	{"Northern Rail", "4112", "Leeds", "GB"},
	{"Blue Lagoon Hotel", "7011", "Split", "HR"},
	{"Paper & Ink", "5943", "Lyon", "FR"},
	{"City Pharmacy", "5912", "Porto", "PT"},
}

// transactionsOf returns the transactions of a card, the same at every call. A
// card in the place of another has none: they stay with the other.
func transactionsOf(of *card) []transaction {
	if of.replaces != "" {
		return nil
	}
	made := make([]transaction, transactionsPerCard)
	for n := range made {
		seed := seedOf("transaction", of.ID, strconv.Itoa(n))
		amount := money(binary.BigEndian.Uint16(seed[:])%20_000) + 1_00
		shop := merchants[int(seed[2])%len(merchants)]
		at := history.Add(time.Duration(n)*31*time.Hour + time.Duration(seed[3])*time.Minute)
		made[n] = transaction{
			TransactionID: uuidOf("transaction", of.ID, strconv.Itoa(n)), CardID: of.ID, CustomerID: of.CustomerID,
			LocalCurrency: of.Currency, LocalAmount: amount,
			AuthorizedAmount: amount, AuthorizedCurrency: of.Currency,
			AuthorizationCode: fmt.Sprintf("%06d", binary.BigEndian.Uint32(seed[4:])%1_000_000), AuthorizedAt: stamp(at),
			FeeCurrency: of.Currency, CrossborderCurrency: of.Currency,
			SettleAmount: amount, SettleCurrency: of.Currency, SettleDate: stamp(at.Add(24 * time.Hour)),
			MerchantName: shop.name, MerchantCategoryCode: shop.category, MerchantCity: shop.city, MerchantCountry: shop.country,
			Type: "purchase", SubType: "pos", Status: "settled", Description: "Purchase at " + shop.name, at: at,
		}
		made[n].vary(n, made)
	}
	return made
}

// vary changes some transactions to other kinds than a settled purchase.
func (t *transaction) vary(n int, earlier []transaction) {
	switch {
	case n == transactionsPerCard-1:
		t.Status, t.SettleAmount = "pending", 0
	case n%6 == 5:
		original := earlier[n-1]
		t.Type, t.SubType, t.OriginalTransactionID = "refund", "merchant", &original.TransactionID
		t.Description = "Refund of " + original.AuthorizationCode
		t.SettleAmount = -t.SettleAmount
	case n%6 == 3:
		t.Type, t.SubType, t.Description = "withdrawal", "atm", "Cash withdrawal"
		t.Fee, t.SettleAmount = 1_50, t.SettleAmount+1_50
	}
}

func (i *Issuer) listTransactions(c *call) (int, any, *problem) {
	return answerTransactions(c, i.tenantLocked(c.tenant).cardOrder)
}

func (i *Issuer) listCustomerTransactions(c *call) (int, any, *problem) {
	owner, bad := i.customerOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return answerTransactions(c, slices.DeleteFunc(
		slices.Clone(i.tenantLocked(c.tenant).cardOrder),
		func(of *card) bool { return of.CustomerID != owner.ID },
	))
}

func (i *Issuer) listCardTransactions(c *call) (int, any, *problem) {
	found, bad := i.cardOf(c)
	if bad != nil {
		return 0, nil, bad
	}
	return answerTransactions(c, []*card{found})
}

func (i *Issuer) getTransaction(c *call) (int, any, *problem) {
	id := c.PathValue("id")
	for _, of := range i.tenantLocked(c.tenant).cardOrder {
		for _, t := range transactionsOf(of) {
			if t.TransactionID == id {
				return http.StatusOK, t, nil
			}
		}
	}
	return 0, nil, notFound("transaction", id)
}

// answerTransactions lists the transactions of these cards that pass the
// query's filters, the newest first.
func answerTransactions(c *call, cards []*card) (int, any, *problem) {
	query := c.URL.Query()
	wanted, bad := parseFilter(query)
	if bad != nil {
		return 0, nil, bad
	}
	var all []transaction
	for _, of := range cards {
		for _, t := range transactionsOf(of) {
			if wanted.match(&t) {
				all = append(all, t)
			}
		}
	}
	slices.SortFunc(all, func(a, b transaction) int {
		return cmp.Or(b.at.Compare(a.at), strings.Compare(a.TransactionID, b.TransactionID))
	})
	shown, p, bad := paginate(query, all)
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, page{shown, p}, nil
}

// A filter is the query of a transaction list. Zero values match all. Ranges
// include both ends.
type filter struct {
	status, kind, currency string
	from, to               time.Time
	min, max               money
}

func parseFilter(q url.Values) (filter, *problem) {
	f := filter{status: q.Get("status"), kind: q.Get("type"), currency: q.Get("currency"), min: math.MinInt64, max: math.MaxInt64}
	var wrong []detail
	parse := func(name string, into func(string) error) {
		if q.Has(name) {
			if err := into(q.Get(name)); err != nil {
				wrong = append(wrong, detail{name, err.Error()})
			}
		}
	}
	parse("from", func(s string) (err error) { f.from, err = parseMoment(s, 0); return err })
	parse("to", func(s string) (err error) { f.to, err = parseMoment(s, 24*time.Hour-time.Second); return err })
	parse("amountMin", func(s string) (err error) { f.min, err = parseMoney(s); return err })
	parse("amountMax", func(s string) (err error) { f.max, err = parseMoney(s); return err })
	if wrong != nil {
		return f, invalid(wrong...)
	}
	return f, nil
}

func (f *filter) match(t *transaction) bool {
	return (f.status == "" || f.status == t.Status) &&
		(f.kind == "" || f.kind == t.Type) &&
		(f.currency == "" || f.currency == t.AuthorizedCurrency) &&
		(f.from.IsZero() || !t.at.Before(f.from)) &&
		(f.to.IsZero() || !t.at.After(f.to)) &&
		t.AuthorizedAmount >= f.min && t.AuthorizedAmount <= f.max
}

// parseMoment returns the moment of a date-time, or of a day plus dayOffset.
func parseMoment(s string, dayOffset time.Duration) (time.Time, error) {
	if at, err := time.Parse(time.DateOnly, s); err == nil {
		return at.Add(dayOffset), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, fmt.Errorf("must be a date (2026-01-31) or a date-time (2026-01-31T12:00:00Z)")
	}
	return at, nil
}

func parseMoney(s string) (money, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(f) > 1e12 || math.IsNaN(f) {
		return 0, fmt.Errorf("must be an amount such as 12.50")
	}
	return money(math.Round(f * 100)), nil
}
