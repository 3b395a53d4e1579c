package caddymodule

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/card-gateway/card-gateway/caddymodule/cardlog"
)

// requestID returns the client's request id if it is valid, else a new one.
func requestID(h http.Header) string {
	if values := h[headerRequestID]; len(values) == 1 && validRequestID(values[0]) {
		return values[0]
	}
	return newRequestID(rand.Text)
}

// requestIDChars are the characters of a request id that is kept.
const requestIDChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// validRequestID reports whether a client's request id is kept: 1 to 64 letters,
// digits, "-" or "_" that cannot contain a card number. The id is logged and
// sent to the upstream.
func validRequestID(id string) bool {
	return 1 <= len(id) && len(id) <= 64 && strings.Trim(id, requestIDChars) == "" && !cardlog.HidesCardNumber(id)
}

// newRequestID returns a new request id. The random texts are those of rand.Text: 26
// letters and digits from 2 to 7, that is, 130 bits. A text with 12 digits or more is
// not used, because it could look like a card number.
func newRequestID(random func() string) string {
	for {
		id, digits := random(), 0
		for i := range len(id) {
			if id[i] <= '9' {
				digits++
			}
		}
		if digits < 12 {
			return id
		}
	}
}
