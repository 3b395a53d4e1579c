package console

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// colours returns the variables of a block :root of the style, by name.
func colours(t *testing.T, block string) map[string]float64 {
	t.Helper()
	found := make(map[string]float64)
	for _, m := range regexp.MustCompile(`--([a-z]+): #([0-9a-f]{3,6});`).FindAllStringSubmatch(block, -1) {
		digits := m[2]
		if len(digits) == 3 {
			digits = string([]byte{digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]})
		}
		found[m[1]] = luminance(t, digits)
	}
	return found
}

// luminance returns the relative luminance of a colour (WCAG 2.2).
func luminance(t *testing.T, digits string) (sum float64) {
	t.Helper()
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		level, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		x := float64(level) / 255
		if x <= 0.04045 {
			x /= 12.92
		} else {
			x = math.Pow((x+0.055)/1.055, 2.4)
		}
		sum += weight * x
	}
	return sum
}

// Light and dark have the same colours, and each pair that is used together has the
// contrast of WCAG AA: 4.5 to 1 for text (1.4.3), 3 to 1 for the edges of controls
// and the focus ring (1.4.11).
func TestContrast(t *testing.T) {
	text, err := pages.ReadFile("page/style.css")
	if err != nil {
		t.Fatal(err)
	}
	roots := regexp.MustCompile(`:root \{[^}]*\}`).FindAllString(string(text), -1)
	if len(roots) != 2 {
		t.Fatalf("the style has %d blocks :root", len(roots))
	}
	pairs := map[string]float64{
		"text ground": 4.5, "text soft": 4.5, "dim ground": 4.5, "dim soft": 4.5, "link ground": 4.5, "link soft": 4.5, "good ground": 4.5,
		"bad ground": 4.5, "bad badground": 4.5, "edge ground": 3, "link badground": 3, "warn soft": 3, "good soft": 3, "bad soft": 3,
	}
	light, dark := colours(t, roots[0]), colours(t, roots[1])
	for scheme, found := range map[string]map[string]float64{"light": light, "dark": dark} {
		for pair, want := range pairs {
			front, back, _ := strings.Cut(pair, " ")
			a, b := found[front], found[back]
			if len(found) != len(light) || min(a, b) < 0 || a == b {
				t.Errorf("%s: %q is not defined as in the other scheme", scheme, pair)
			}
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); got < want {
				t.Errorf("%s: the contrast of %s is %.2f to 1, want %.1f", scheme, pair, got, want)
			}
		}
	}
	for _, name := range regexp.MustCompile(`var\(--([a-z]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if _, ok := light[name[1]]; !ok {
			t.Errorf("--%s is used and not defined", name[1])
		}
	}
}
