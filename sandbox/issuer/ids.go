package issuer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// seedOf returns 32 bytes that look random and depend on the parts alone. The
// length of each part matters, so that ("ab","c") and ("a","bc") differ.
func seedOf(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// uuidOf returns a UUID that depends on the parts alone (version 8 of RFC 9562,
// which leaves the content to the issuer).
func uuidOf(parts ...string) string {
	b := seedOf(parts...)
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// isUUID reports whether s is a UUID in the usual form, in upper or lower case.
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(strings.ToLower(s)) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if dash && c != '-' || !dash && !hex {
			return false
		}
	}
	return true
}

// cardNumberOf returns the 16 digits of a card: six that no network issues
// (a leading 9 is for national use), nine from the card's id, and the Luhn
// check digit.
func cardNumberOf(cardID string) string {
	seed := seedOf("card number", cardID)
	number := fmt.Sprintf("999999%09d", binary.BigEndian.Uint64(seed[:8])%1_000_000_000)
	return number + string(luhnDigit(number))
}

// luhnDigit returns the digit that makes number pass the Luhn check.
func luhnDigit(number string) byte {
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 0 { // the check digit itself will stand to the right
			d *= 2
			if d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return byte('0' + (10-sum%10)%10)
}
