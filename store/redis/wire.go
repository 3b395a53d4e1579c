package redis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// randomHex returns n random bytes in hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment returns the time for microseconds of Unix time; 0 is the zero time.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// text returns the i-th element of a reply as text.
func text(reply []any, i int) (string, error) {
	if i < len(reply) {
		if s, ok := reply[i].(string); ok {
			return s, nil
		}
	}
	return "", fmt.Errorf("%w: a reply of redis lacks text at place %d", store.ErrUnavailable, i)
}

// fields reads whole numbers separated by spaces.
type fields struct {
	rest string
	err  error
}

func (f *fields) next() int64 {
	word, rest, _ := strings.Cut(f.rest, " ")
	f.rest = rest
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("%w: a reply of redis holds %q instead of a number", store.ErrUnavailable, word)
	}
	return n
}

// bounded reads a number from 0 to maxNumber.
func (f *fields) bounded() int64 {
	n := f.next()
	if (n < 0 || n >= maxNumber) && f.err == nil {
		f.err = fmt.Errorf("%w: a reply of redis holds the number %d", store.ErrUnavailable, n)
	}
	return n
}

// maxNumber bounds the numbers of the scripts: a double has all whole numbers below.
const maxNumber = 1 << 53

// numbers reads the whole numbers of a reply, from 0 to maxNumber.
type numbers struct {
	rest []any
	err  error
}

func (n *numbers) next() int64 {
	i := n.signed()
	if (i < 0 || i >= maxNumber) && n.err == nil {
		n.err = fmt.Errorf("%w: a reply of redis holds the number %d", store.ErrUnavailable, i)
	}
	return i
}

// bit reads 0 or 1.
func (n *numbers) bit() bool {
	i := n.next()
	if i > 1 && n.err == nil {
		n.err = fmt.Errorf("%w: a reply of redis holds %d instead of 0 or 1", store.ErrUnavailable, i)
	}
	return i == 1
}

// signed reads a number that may be negative or larger.
func (n *numbers) signed() int64 {
	if len(n.rest) > 0 {
		if i, ok := n.rest[0].(int64); ok {
			n.rest = n.rest[1:]
			return i
		}
	}
	if n.err == nil {
		n.err = fmt.Errorf("%w: a reply of redis lacks a number before %v", store.ErrUnavailable, n.rest)
	}
	return 0
}

// end returns the error of the numbers, also if more follows them.
func (n *numbers) end() error {
	if n.err == nil && len(n.rest) > 0 {
		n.err = fmt.Errorf("%w: a reply of redis has %d values too many", store.ErrUnavailable, len(n.rest))
	}
	return n.err
}
