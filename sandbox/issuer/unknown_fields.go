package issuer

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// HeaderWarning is on the answer to a body with a field that the operation does not
// have, once for each of at most maxWarnings such fields. The sandbox ignores them, as
// most issuers do, so that a misspelled optional field would be lost without a word.
const HeaderWarning = "X-Sandbox-Warning"

const maxWarnings = 5

// warnOfUnknown names the fields of an object that are not among the known ones. A body
// that is not an object is left to its operation.
func warnOfUnknown(h http.Header, body []byte, known []string) {
	var given map[string]json.RawMessage
	if known == nil || json.Unmarshal(body, &given) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) || len(h.Values(HeaderWarning)) == maxWarnings {
			continue
		}
		warning := "unknown field " + strconv.QuoteToASCII(name[:min(len(name), 60)])
		if meant := nearest(name, known); meant != "" {
			warning += `; did you mean "` + meant + `"?`
		}
		h.Add(HeaderWarning, warning)
	}
}

// nearest returns the known field that differs from the name by at most two letters,
// written like the name; "" if there is none.
func nearest(name string, known []string) string {
	const most = 2
	least, meant := most+1, ""
	for _, field := range known {
		if distance := editDistance(name, like(name, field)); distance < least {
			least, meant = distance, like(name, field)
		}
	}
	return meant
}

// like returns the field in camelCase if the name has a capital: the client wrote
// firstName, of which the gateway made first_name.
func like(name, field string) string {
	if !strings.ContainsFunc(name, unicode.IsUpper) {
		return field
	}
	words := strings.Split(field, "_")
	for n, word := range words[1:] {
		words[n+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// editDistance returns the Levenshtein distance of two texts, in bytes. That of texts
// whose lengths differ much is not computed: it is at least the difference.
func editDistance(a, b string) int {
	if difference := max(len(a)-len(b), len(b)-len(a)); difference > 8 {
		return difference
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
