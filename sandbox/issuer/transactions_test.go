package issuer

import (
	"net/url"
	"reflect"
	"testing"
)

func TestTransactionPages(t *testing.T) {
	i := newTestIssuer(Options{})
	customerID := createAnn(t, i)
	first, second := issueCard(t, i, customerID), issueCard(t, i, customerID)
	for _, test := range []struct {
		target              string
		shown, total, limit int
		offset              int
		more                bool
	}{
		{"/api/v1/transactions", 20, 24, 20, 0, true},
		{"/api/v1/transactions?offset=20", 4, 24, 20, 20, false},
		{"/api/v1/transactions?limit=24", 24, 24, 24, 0, false},
		{"/api/v1/transactions?limit=1&offset=23", 1, 24, 1, 23, false},
		{"/api/v1/transactions?limit=1&offset=24", 0, 24, 1, 24, false},
		{"/api/v1/transactions?offset=9999999", 0, 24, 20, 9999999, false},
		{"/api/v1/customers/" + customerID + "/transactions?limit=100", 24, 24, 100, 0, false},
		{"/api/v1/cards/" + first + "/transactions", 12, 12, 20, 0, false},
		{"/api/v1/cards/" + second + "/transactions?limit=5", 5, 12, 5, 0, true},
	} {
		list := ask(t, i, 200, request("GET", test.target, ""))
		want := map[string]any{
			"total": float64(test.total), "limit": float64(test.limit), "offset": float64(test.offset), "hasMore": test.more,
		}
		shown, ok := at(t, list, "data").([]any)
		if !ok || len(shown) != test.shown || !reflect.DeepEqual(at(t, list, "pagination"), any(want)) {
			t.Errorf("%s: %d shown, pagination %v", test.target, len(shown), at(t, list, "pagination"))
		}
	}
	ask(t, i, 404, request("GET", "/api/v1/customers/"+virtualProduct+"/transactions", ""))
	for _, query := range []string{
		"limit=0", "limit=101", "limit=x", "limit=", "limit=1&limit=2", "offset=-1", "offset=99999999999999999999",
		"from=yesterday", "to=2026-13-01", "amountMin=much", "amountMax=NaN",
	} {
		ask(t, i, 422, request("GET", "/api/v1/transactions?"+query, ""))
	}
}

func TestTransactionFilters(t *testing.T) {
	i := newTestIssuer(Options{})
	issueCard(t, i, createAnn(t, i))
	all := list(t, i, url.Values{})
	for _, test := range []struct {
		query url.Values
		keep  func(tx map[string]any) bool
	}{
		{url.Values{"status": {"pending"}}, func(tx map[string]any) bool { return tx["status"] == "pending" }},
		{url.Values{"type": {"refund"}}, func(tx map[string]any) bool { return tx["type"] == "refund" }},
		{url.Values{"currency": {"EUR"}}, func(map[string]any) bool { return true }},
		{url.Values{"currency": {"USD"}}, func(map[string]any) bool { return false }},
		{url.Values{"from": {"2026-01-08"}}, func(tx map[string]any) bool { return tx["authorizedAt"].(string) >= "2026-01-08" }},
		{url.Values{"to": {"2026-01-08"}}, func(tx map[string]any) bool { return tx["authorizedAt"].(string) < "2026-01-09" }},
		{
			url.Values{"from": {all[4]["authorizedAt"].(string)}, "to": {all[4]["authorizedAt"].(string)}},
			func(tx map[string]any) bool { return tx["authorizedAt"] == all[4]["authorizedAt"] },
		},
		{url.Values{"amountMin": {"100"}, "amountMax": {"150.50"}}, func(tx map[string]any) bool {
			amount := tx["authorizedAmount"].(float64)
			return amount >= 100 && amount <= 150.50
		}},
	} {
		var want []map[string]any
		for _, tx := range all {
			if test.keep(tx) {
				want = append(want, tx)
			}
		}
		if got := list(t, i, test.query); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d transactions, want %d", test.query.Encode(), len(got), len(want))
		}
	}
	for n := 1; n < len(all); n++ {
		if all[n-1]["authorizedAt"].(string) < all[n]["authorizedAt"].(string) {
			t.Errorf("transaction %d is older than the next", n-1)
		}
	}
}

func list(t *testing.T, i *Issuer, query url.Values) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, tx := range at(t, ask(t, i, 200, request("GET", "/api/v1/transactions?"+query.Encode(), "")), "data").([]any) {
		all = append(all, tx.(map[string]any))
	}
	return all
}

func TestProducts(t *testing.T) {
	i := newTestIssuer(Options{})
	shown := at(t, ask(t, i, 200, request("GET", "/api/v1/products", "")), "data").([]any)
	if len(shown) != len(products) || at(t, shown[0], "id") != virtualProduct {
		t.Errorf("products %v", shown)
	}
	ask(t, i, 200, request("GET", "/api/v1/products/"+physicalProduct, ""))
	ask(t, i, 404, request("GET", "/api/v1/products/gold", ""))
}
