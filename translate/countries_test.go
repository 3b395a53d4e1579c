package translate

import (
	"os"
	"strings"
	"testing"
)

// TestCountries compares the list with the one of the IANA time zone
// database, which holds exactly the codes that ISO 3166-1 assigns.
func TestCountries(t *testing.T) {
	text, err := os.ReadFile("testdata/iso3166.tab")
	if err != nil {
		t.Fatal(err)
	}
	assigned := map[string]bool{"XK": true}
	for line := range strings.Lines(string(text)) {
		if code, _, found := strings.Cut(line, "\t"); found && !strings.HasPrefix(line, "#") {
			assigned[code] = true
		}
	}
	if len(assigned) != 250 {
		t.Fatalf("%d codes in the file and XK, want 250", len(assigned))
	}
	for a := range 256 {
		for b := range 256 {
			code := string([]byte{byte(a), byte(b)})
			if got := validCountry([]byte(code)); got != assigned[code] {
				t.Errorf("%q: valid %v, assigned %v", code, got, assigned[code])
			}
		}
	}
	for _, code := range []string{"", "G", "GBR"} {
		if validCountry([]byte(code)) {
			t.Errorf("%q is valid", code)
		}
	}
}
