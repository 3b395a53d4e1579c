package translate_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/card-gateway/card-gateway/translate"
)

// kilobyte is a customer of variant B of about 1 KiB.
var kilobyte = []byte(`{"type":"individual","firstName":"Zo\u00eb","lastName":"Ng-Featherstonehaugh","email":"zoe.ng@example.com","phoneCode":"+44",` +
	`"phoneNumber":"7700 900123","country":"GB","dateOfBirth":"1990-04-12","gender":"female","state":"Kent","externalReference":"crm-0001-2222",` +
	`"address":{"addressLine1":"1 High Street","addressLine2":"Flat 2","city":"Canterbury","state":"Kent","postalCode":"CT1 2AB","country":"GB"},` +
	`"metadata":{"source":"web","campaign":"spring","score":0.125,"tags":["a","b","c"],"consent":{"terms":true,"news":false,"at":"2026-01-01T00:00:00Z"},` +
	`"note":"` + strings.Repeat("lorem ipsum dolor ", 26) + `"}}`)

// copyTokens only reads and writes the tokens with jsontext, as a baseline.
func copyTokens(dec *jsontext.Decoder, enc *jsontext.Encoder) error {
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := enc.WriteToken(token); err != nil {
			return err
		}
	}
}

func BenchmarkTokensAlone(b *testing.B) {
	b.SetBytes(int64(len(kilobyte)))
	b.ReportAllocs()
	dec, enc := jsontext.NewDecoder(new(bytes.Buffer)), jsontext.NewEncoder(new(bytes.Buffer))
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		dec.Reset(bytes.NewBuffer(kilobyte))
		enc.Reset(&out)
		if err := copyTokens(dec, enc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	b.SetBytes(int64(len(kilobyte)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, problems := translate.Request(kilobyte, translate.RequestOptions{}); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

func BenchmarkResponse(b *testing.B) {
	body, _, _ := translate.Request(kilobyte, translate.RequestOptions{})
	opt := translate.ResponseOptions{Variant: translate.VariantC, RequestID: "req-1", Now: time.Unix(1_800_000_000, 0)}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := translate.Response(body, opt); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRefusal(b *testing.B) {
	body := bytes.Replace(kilobyte, []byte(`"1990-04-12"`), []byte(`"1990-02-30"`), 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, problems := translate.Request(body, translate.RequestOptions{}); len(problems) != 1 {
			b.Fatal(problems)
		}
	}
}

// TestAllocations holds the benchmark to its promise: a 1 KiB customer is
// translated and checked with at most 20 allocations.
func TestAllocations(t *testing.T) {
	if len(kilobyte) < 1000 || len(kilobyte) > 1100 {
		t.Fatalf("the customer has %d bytes", len(kilobyte))
	}
	allocations := testing.AllocsPerRun(100, func() {
		if _, _, problems := translate.Request(kilobyte, translate.RequestOptions{}); len(problems) > 0 {
			t.Fatal(problems)
		}
	})
	if allocations > 20 {
		t.Errorf("%v allocations, want at most 20", allocations)
	}
}
