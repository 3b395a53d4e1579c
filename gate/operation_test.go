package gate

import (
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

// The gateway's own operations exist only where nothing behind asks an issuer.
func TestOwnOperations(t *testing.T) {
	table, err := auth.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, answersOwn := range []bool{true, false} {
		g := &Gate{Table: table, AnswersOwn: answersOwn, Other: table.ByName(auth.OtherOperation)}
		for _, own := range []string{"GET /gateway/v1/key", "POST /gateway/v1/echo", "POST /gateway/v1/key/rotate"} {
			method, path, _ := strings.Cut(own, " ")
			operation, scope, refusal := g.operation(method, path)
			if refusal != nil || operation.Own != answersOwn || (scope == auth.ScopeAll) == answersOwn {
				t.Errorf("%t: %s is %+v, %v", answersOwn, own, operation, refusal)
			}
		}
		if operation, _, _ := g.operation("GET", "/api/v1/cards/c1"); operation.Name != "get_card" {
			t.Errorf("%t: get_card is %+v", answersOwn, operation)
		}
	}
}
