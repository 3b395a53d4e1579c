package auth_test

import (
	"fmt"

	"github.com/card-gateway/card-gateway/auth"
)

// The mistakes that a table of operations can hold are told apart.
func ExampleNewTable() {
	_, err := auth.NewTable([]auth.OperationDef{
		{Name: "freeze_card", Method: "POST", Pattern: "/api/v1/cards/{cardId/freeze", Scope: "cards:write"},
	})
	fmt.Println(err)
	// Output:
	// operation "freeze_card": bad pattern "/api/v1/cards/{cardId/freeze": the placeholder "{cardId" must fill its segment, as in {cardId}
}
