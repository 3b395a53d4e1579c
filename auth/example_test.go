package auth_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A client whose requests are all signed.
func ExampleTransport() {
	client := &http.Client{
		Timeout: 30 * time.Second,
		Transport: &auth.Transport{
			Signer: auth.Signer{KeyID: os.Getenv("CARD_KEY_ID"), Secret: os.Getenv("CARD_SECRET")},
		},
	}
	_ = client // client.Get("https://cards.example.com/api/v1/transactions?limit=20")
}

// Signing one request by hand. The clock and the nonce are fixed here so that
// the signature can be shown; leave them out.
func ExampleSigner_Sign() {
	signer := auth.Signer{
		KeyID:  "ak_test_1",
		Secret: "test_secret_0123456789abcdef",
		Now:    func() time.Time { return time.Unix(1750000000, 0) },
		Nonce:  func() string { return "n-0001" },
	}
	body := `{"amount":"10.00","currency":"USD"}`
	r, err := http.NewRequest(http.MethodPost, "https://cards.example.com/api/v1/orders", strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := signer.Sign(r, []byte(body)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Header.Get("X-Body-Hash"))
	fmt.Println(r.Header.Get("X-Signature"))
	// Output:
	// 6mpclRCa5jgu16PzW9kPEjbk1qkvAwCG1bbfArGkrI8=
	// RLH3p1GxzbY4yR1TglWzf+F9nSH2IjwyxzsgXLFN7e0=
}

// The mistakes that a table of operations can hold are told apart.
func ExampleNewTable() {
	_, err := auth.NewTable([]auth.OperationDef{
		{Name: "freeze_card", Method: "POST", Pattern: "/api/v1/cards/{cardId/freeze", Scope: "cards:write"},
	})
	fmt.Println(err)
	// Output:
	// operation "freeze_card": bad pattern "/api/v1/cards/{cardId/freeze": the placeholder "{cardId" must fill its segment, as in {cardId}
}
