package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// maxNumber bounds the numbers of the scripts: a double has all whole numbers below.
const maxNumber = 1 << 53

// numbers reads the whole numbers of a reply, from 0 to maxNumber.
type numbers struct {
	rest []any
	err  error
}

// parseNumbers returns the first whole numbers of a text, at most most, which are
// separated by spaces.
func parseNumbers(text string, most int) (n numbers) {
	n.rest = make([]any, 0, most)
	for more := true; more && len(n.rest) < most; {
		var word string
		word, text, more = strings.Cut(text, " ")
		i, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return numbers{err: fmt.Errorf("%w: a reply of redis holds %q instead of a number", store.ErrUnavailable, word)}
		}
		n.rest = append(n.rest, i)
	}
	return n
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

const (
	spanMillis = 128_000 // of one nonce hash
	// MaxWindow is the longest Claim.Window: settle.lua searches nonces as far
	// ahead as they can live with this window.
	MaxWindow = time.Hour
	// longestLife of a nonce, that of a request stamped a whole window ahead.
	longestLife = 2*MaxWindow + 11*time.Second
	// spanReach is the number of spans after the current one in which a nonce can
	// still live.
	spanReach = int64(longestLife/time.Millisecond)/spanMillis + 2
)

// windowLinger is how long a wider window counts as in use after the last request
// that was accepted with it.
const windowLinger = 10 * time.Minute

// names builds the names of the Redis keys.
//
//	cg:{ID}:k       hash: record, revision, lock, failure count
//	cg:{ID}:b       hash: levels of the rate limits
//	cg:{ID}:n13281  hash: nonces that expire in the same span of time
//	cg:m:NAME       small named value
//	cg:index        sorted set of all ids
//	cg:policies     hash: the policy of each gateway
//
// Package masters has others.
type names struct{ prefix string }

func (n names) record(id string) string { return n.prefix + "{" + id + "}:k" }

func (n names) buckets(id string) string { return n.prefix + "{" + id + "}:b" }

func (n names) meta(name string) string { return n.prefix + "m:" + name }

func (n names) index() string { return n.prefix + "index" }

func (n names) nodePolicies() string { return n.prefix + "policies" }

func (n names) nonces(id string, span int64) string {
	b := make([]byte, 0, len(n.prefix)+len(id)+20)
	b = append(b, n.prefix...)
	b = append(b, '{')
	b = append(b, id...)
	b = append(b, "}:n"...)
	return string(strconv.AppendInt(b, span, 10))
}
