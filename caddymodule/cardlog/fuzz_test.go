package cardlog

import (
	"regexp"
	"testing"
)

// thirteen matches what no line may show: 13 digits in a row. A UUID may have them.
var thirteen = regexp.MustCompile(`[0-9]{13}`)

// FuzzMask: no run of digits survives in any text, and masking once is enough.
func FuzzMask(f *testing.F) {
	for _, seed := range []string{
		"", "4111111111111111", "card 4111 1111-1111.1111 and more", "%34111111111111111", "%2534111111111111111", "/api/v1/cards/4222222222222220/x",
		"４１１１１１１１１１１１１１１１", "4_1_1_1_1_1_1_1_1_1_1_1_1_1_1_1", "123456789012", "01234567-8901-2345-6789-012345678901",
		"198.51.100.9 4111111111111111", "411111111111%311111", "\xff4111111111111111\xfe", "4111\u200b1111\u00a011111111",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Mask(text)
		if HidesCardNumber(got) || thirteen.MatchString(anUUID.ReplaceAllString(got, "x")) {
			t.Fatalf("%q became %q", text, got)
		}
		if again := Mask(got); again != got {
			t.Fatalf("%q became %q, and then %q", text, got, again)
		}
		if !HidesCardNumber(text) && got != text {
			t.Fatalf("%q hides nothing and became %q", text, got)
		}
	})
}
