package issuer

import "net/http"

// A product is the kind of a card. The published interface does not show its
// fields; these are the sandbox's own.
type product struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	CardType   string   `json:"card_type"`
	Provider   string   `json:"provider"`
	Currencies []string `json:"currencies"`
}

// products are the same for every tenant and at every start.
var products = []product{
	{"00000000-0000-4000-8000-000000000001", "Sandbox Virtual", "virtual", "sandbox", []string{"EUR", "USD", "GBP"}},
	{"00000000-0000-4000-8000-000000000002", "Sandbox Physical", "physical", "sandbox", []string{"EUR", "USD"}},
	{"00000000-0000-4000-8000-000000000003", "Sandbox Business Virtual", "virtual", "sandbox", []string{"EUR"}},
}

func productByID(id string) *product {
	for n := range products {
		if products[n].ID == id {
			return &products[n]
		}
	}
	return nil
}

var productFilters = map[string]func(product) *string{
	"name":     func(p product) *string { return &p.Name },
	"cardType": func(p product) *string { return &p.CardType },
	"provider": func(p product) *string { return &p.Provider },
}

func (i *Issuer) listProducts(c *call) (int, any, *problem) {
	query := c.URL.Query()
	shown, p, bad := paginate(query, matching(query, products, productFilters))
	if bad != nil {
		return 0, nil, bad
	}
	return http.StatusOK, page{shown, p}, nil
}

func (i *Issuer) getProduct(c *call) (int, any, *problem) {
	if found := productByID(c.PathValue("id")); found != nil {
		return http.StatusOK, found, nil
	}
	return 0, nil, notFound("product", c.PathValue("id"))
}
