package issuer

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultLimit = 20
	maxLimit     = 100
)

// pagination is a member beside data in a list, as the published interface shows.
type pagination struct {
	Total   int  `json:"total"`
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"hasMore"`
}

// paginate returns the page of all that the query asks for with limit (1 to 100,
// default 20) and offset (at least 0).
func paginate[T any](q url.Values, all []T) ([]T, *pagination, *problem) {
	limit, bad := number(q, "limit", defaultLimit)
	if bad == nil && (limit < 1 || limit > maxLimit) {
		bad = invalid(detail{"limit", fmt.Sprintf("must be from 1 to %d", maxLimit)})
	}
	if bad != nil {
		return nil, nil, bad
	}
	offset, bad := number(q, "offset", 0)
	if bad != nil {
		return nil, nil, bad
	}
	p := &pagination{Total: len(all), Limit: limit, Offset: offset}
	from := min(offset, len(all))
	to := min(from+limit, len(all))
	p.HasMore = to < len(all)
	shown := all[from:to]
	if shown == nil {
		shown = []T{} // a list is [], never null
	}
	return shown, p, nil
}

// number returns a whole number of the query, at least 0, or missing if the name
// is absent.
func number(q url.Values, name string, missing int) (int, *problem) {
	if !q.Has(name) {
		return missing, nil
	}
	n, err := strconv.Atoi(q.Get(name))
	if err != nil || n < 0 || len(q[name]) > 1 {
		return 0, invalid(detail{name, "must be one whole number, at least 0"})
	}
	return n, nil
}

// matching returns those of all whose fields have the values that the query
// names, without regard to case. A field that is null matches no value.
func matching[T any](q url.Values, all []T, fields map[string]func(T) *string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool {
		for name, field := range fields {
			if !q.Has(name) {
				continue
			}
			if value := field(one); value == nil || !strings.EqualFold(*value, q.Get(name)) {
				return true
			}
		}
		return false
	})
}
