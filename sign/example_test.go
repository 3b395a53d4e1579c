package sign_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/sign"
)

// A client whose requests are all signed.
func ExampleTransport() {
	client := &http.Client{
		Timeout: 30 * time.Second,
		Transport: &sign.Transport{
			Signer: sign.Signer{KeyID: os.Getenv("CARD_KEY_ID"), Secret: os.Getenv("CARD_SECRET")},
		},
	}
	_ = client // client.Get("https://cards.example.com/api/v1/transactions?limit=20")
}

// Signing one request by hand. The clock and the nonce are fixed here so that
// the signature can be shown; leave them out.
func ExampleSigner_Sign() {
	signer := sign.Signer{
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
