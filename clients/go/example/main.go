// Command example issues a card. It is the program of the README.
package main

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"time"

	cardclient "github.com/card-gateway/card-gateway/clients/go"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err) // a *cardclient.APIError has Status, Code, Message, Details and RequestID
	}
}

func run(ctx context.Context) error {
	cards := cardclient.New(os.Getenv("CARD_URL"), os.Getenv("CARD_KEY_ID"), os.Getenv("CARD_SECRET"))

	answer, err := cards.Post(ctx, "/api/v1/Customers", map[string]string{
		"type": "individual", "firstName": "Zoë", "lastName": "García", "email": fmt.Sprintf("zoe-%d@example.com", time.Now().UnixNano()),
		"phoneCode": "+34", "phoneNumber": "600000000", "country": "ES", "dateOfBirth": "1990-04-12", "gender": "female",
	})
	if err != nil {
		return err
	}
	var customer struct{ Data struct{ ID string } }
	if err := answer.Decode(&customer); err != nil {
		return err
	}
	fmt.Println("customer", customer.Data.ID)

	answer, err = cards.Post(ctx, "/api/v1/cards", map[string]string{
		"customerId": customer.Data.ID, "productId": "00000000-0000-4000-8000-000000000001", "currency": "EUR",
	})
	if err != nil {
		return err
	}
	var issued struct{ CardID string }
	if err := answer.Decode(&issued); err != nil {
		return err
	}
	answer, err = cards.Get(ctx, "/api/v1/cards/"+issued.CardID, nil)
	if err != nil {
		return err
	}
	var card struct {
		Status string
		Number string `json:"card_number_masked"`
	}
	if err := answer.Decode(&card); err != nil {
		return err
	}
	fmt.Println("card", card.Number, card.Status)

	answer, err = cards.Get(ctx, "/api/v1/customers/"+customer.Data.ID+"/transactions", url.Values{"from": {"2026-01-01T00:00:00+01:00"}, "limit": {"5"}})
	if err != nil {
		return err
	}
	var page struct{ Pagination struct{ Total int } }
	if err := answer.Decode(&page); err != nil {
		return err
	}
	fmt.Println(page.Pagination.Total, "transactions")

	form, err := cardclient.Form(map[string]string{"type": "passport", "customerId": customer.Data.ID}, "file", "passport.pdf", []byte("%PDF-1.7 …"))
	if err != nil {
		return err
	}
	answer, err = cards.Do(ctx, "POST", "/api/v1/documents", form)
	if err != nil {
		return err
	}
	fmt.Println("document", string(answer.Body))
	return nil
}
