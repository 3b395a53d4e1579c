package settings

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestCheckScopesAndLimits(t *testing.T) {
	table, err := auth.NewTable([]auth.OperationDef{
		{Name: "pay_bill", Method: "POST", Pattern: "/api/v1/bills", Scope: "bills:pay"},
		{Name: "pay_bill", Method: "PUT", Pattern: "/api/v1/bills/{id}", Scope: "orders:pay"},
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := &Settings{Table: table}
	for _, scope := range []string{"cards:read", "cards:*", "*", "bills:pay", "bills:*", "orders:pay", "orders:*", "webhooks:write"} {
		if err := rules.CheckScopes([]string{scope}); err != nil {
			t.Errorf("%s: %v", scope, err)
		}
	}
	for _, scope := range []string{"card:read", "cards:reed", "bill:*", "cards", ""} {
		if err := rules.CheckScopes([]string{"cards:read", scope}); err == nil || !strings.Contains(err.Error(), "bills:pay") {
			t.Errorf("%s: %v", scope, err)
		}
	}
	limits := func(name string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(`"1/1m"`)}
	}
	for _, name := range []string{"default", "total", "pay_bill", "other", "get_card"} {
		if err := rules.CheckLimits(limits(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := rules.CheckLimits(limits("paybill")); err == nil || !strings.Contains(err.Error(), "pay_bill") {
		t.Errorf("paybill: %v", err)
	}
}
