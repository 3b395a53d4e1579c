package keys

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/card-gateway/card-gateway/ratelimit"
)

// The years of the times that a key may have, in UTC. Earlier years are refused
// because tools write the year 1, 1900 or 1970 for an unset time. RFC 3339 has no
// year after 9999.
const (
	firstYear = 2000
	lastYear  = 9999
)

var (
	errNoTime    = errors.New(`want a time as in RFC 3339, such as "2030-01-31T00:00:00Z", or null`)
	errTimeRange = fmt.Errorf("want a time from %d to %d; for none, give null or leave it out", firstYear, lastYear)
)

// checkTime returns an error for a time that a key may not have.
func checkTime(t time.Time) error {
	if year := t.UTC().Year(); year < firstYear || year > lastYear {
		return errTimeRange
	}
	return nil
}

// strictTimes is the option that calls [checkTime] for every time in JSON.
var strictTimes = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFunc(func(doc []byte, t *time.Time) error {
	switch {
	case doc[0] == 'n':
		*t = time.Time{}
		return nil
	case doc[0] != '"' || t.UnmarshalJSON(doc) != nil:
		return errNoTime
	default:
		return checkTime(*t)
	}
}))

// checkUntil returns an error for the first limit whose end is not a time that
// a key may have.
func checkUntil(limits ratelimit.Overrides) error {
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		until := limits[name].Until
		if until.IsZero() {
			continue
		}
		if err := checkTime(until); err != nil {
			return fmt.Errorf("%q: until: %w", name, err)
		}
	}
	return nil
}
