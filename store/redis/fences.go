package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A fence is the replay floor of some slots, in microseconds: nonces that were
// accepted there until then may be lost. Fences follow the slots, not the
// servers, because slots move and take their nonces along.
type fence struct {
	first, last int
	at          int64
}

// fences are those of which a request may still be in a window.
type fences []fence

// at returns the floor of a slot, 0 when there is none.
func (f fences) at(n int) (floor int64) {
	for i := range f {
		if f[i].first <= n && n <= f[i].last {
			floor = max(floor, f[i].at)
		}
	}
	return floor
}

// String writes the fences as adopt.lua does: "0-5460=1700000000000000".
func (f fences) String() string {
	all := make([]string, len(f))
	for i := range f {
		all[i] = fmt.Sprintf("%d-%d=%d", f[i].first, f[i].last, f[i].at)
	}
	return strings.Join(all, " ")
}

// parseFences reads what String writes.
func parseFences(text string) (fences, error) {
	var f fences
	for word := range strings.FieldsSeq(text) {
		served, at, _ := strings.Cut(word, "=")
		first, last, err := parseRange(served)
		if err != nil {
			return nil, err
		}
		moment, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a fence: %w", word, err)
		}
		f = append(f, fence{first, last, moment})
	}
	return f, nil
}

// and returns the fences of both, the later ones of the same slots.
func (f fences) and(others fences) fences {
	all := slices.Clone(f)
	for _, o := range others {
		i := slices.IndexFunc(all, func(x fence) bool { return x.first == o.first && x.last == o.last })
		if i < 0 {
			all = append(all, o)
		} else {
			all[i].at = max(all[i].at, o.at)
		}
	}
	return all
}
