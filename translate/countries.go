package translate

import "github.com/biter777/countries"

// withdrawn holds the codes that ISO 3166-1 no longer assigns but the library
// still lists: the Netherlands Antilles and Yugoslavia. A test compares the
// other codes with the list of the IANA time zone database.
var withdrawn = map[string]bool{"AN": true, "YU": true}

// countryCodes holds the assigned alpha-2 codes, and XK for Kosovo, by their
// two letters.
var countryCodes = func() (codes [26][26]bool) {
	for _, country := range countries.All() {
		if code := country.Alpha2(); len(code) == 2 && !withdrawn[code] {
			codes[code[0]-'A'][code[1]-'A'] = true
		}
	}
	return codes
}()

// validCountry reports whether s is an upper-case ISO 3166-1 alpha-2 code or
// XK.
func validCountry(s []byte) bool {
	return len(s) == 2 && all(s, upper) && countryCodes[s[0]-'A'][s[1]-'A']
}
