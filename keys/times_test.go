package keys_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/store"
)

// takers are all calls that set a time in a key's record. Each returns the name
// of the field and the error.
func takers(w *world, id string) map[string]func(text string) (string, error) {
	create := func(doc string) error {
		var req keys.CreateRequest
		if err := fields.Decode([]byte(doc), &req); err != nil {
			return err
		}
		_, err := w.Create(w.t.Context(), req, by)
		return err
	}
	update := func(doc string) error {
		_, err := w.Update(w.t.Context(), id, []byte(doc), by)
		return err
	}
	takers := make(map[string]func(string) (string, error))
	for field, member := range map[string]string{
		"expires_at": `"expires_at":%q`, "debug_until": `"debug_until":%q`, "limits": `"limits":{"total":{"limit":"1/1s","until":%q}}`,
	} {
		takers["create "+field] = func(text string) (string, error) {
			return field, create(`{"tenant":"acme","scopes":["*"],` + fmt.Sprintf(member, text) + `}`)
		}
		takers["import "+field] = func(text string) (string, error) {
			var req keys.ImportRequest
			err := fields.Decode([]byte(`{"tenant":"acme","scopes":["*"],"id":"legacy","secret":"0123456789abcdef",`+fmt.Sprintf(member, text)+`}`), &req)
			if err != nil {
				return field, err
			}
			_, err = w.Import(w.t.Context(), req, by)
			if err == nil {
				_, err = w.Delete(w.t.Context(), "legacy", by)
			}
			return field, err
		}
		takers["update "+field] = func(text string) (string, error) { return field, update(`{` + fmt.Sprintf(member, text) + `}`) }
	}
	return takers
}

// A tool may write a time that means "unset". It must not make a key that never
// expires or that has expired. So every call that takes a time refuses those
// before the year 2000 and after 9999, in any zone.
func TestTimesThatMeanUnsetAreRefused(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	for name, take := range takers(w, made.ID) {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{
				"0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "0001-01-01T01:00:00+01:00", "0001-01-01T00:00:00-08:00",
				"0000-01-01T00:00:00Z", "1900-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1999-12-31T23:59:59.999Z",
				"2000-01-01T00:59:59+01:00", "9999-12-31T23:30:00-01:00",
			} {
				var bad *fields.InvalidError
				if field, err := take(text); !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), field) {
					t.Errorf("%s: %v", text, err)
				}
			}
			last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_900, time.UTC)
			if strings.HasSuffix(name, "debug_until") {
				last = epoch.Add(24 * time.Hour)
			}
			for _, text := range []string{"2000-01-01T00:00:00Z", "2000-01-01T01:00:00+01:00", last.Format(time.RFC3339Nano)} {
				if _, err := take(text); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
			rapid.Check(t, func(t *rapid.T) {
				at := time.Unix(rapid.Int64Range(-62_167_219_200, 253_402_300_799).Draw(t, "unix"), 0)
				zone := time.FixedZone("", 60*rapid.IntRange(-23*60, 23*60).Draw(t, "minutes"))
				text, err := at.In(zone).MarshalText()
				if err != nil {
					t.Skip("a year that RFC 3339 cannot write")
				}
				if _, err := take(string(text)); (err == nil) != (at.UTC().Year() >= 2000 && !at.After(last)) {
					t.Fatalf("%s: %v", text, err)
				}
			})
		})
	}
}

// A key that an earlier version stored with such a time can still be read and
// changed.
func TestStoredTimesAreRead(t *testing.T) {
	w := oldWorld(t)
	made := w.create()
	old := time.Unix(0, 0).UTC()
	w.tamper(made.ID, func(r *store.Record) {
		r.ExpiresAt = old
		r.Limits = map[string]json.RawMessage{"total": json.RawMessage(`{"limit":"1/1s","until":"1970-01-01T00:00:00Z"}`)}
	})
	if key := w.fresh(made.ID); !key.ExpiresAt.Equal(old) {
		t.Errorf("expires at %s", key.ExpiresAt)
	}
	if _, err := w.Update(t.Context(), made.ID, []byte(`{"expires_at":null,"limits":null}`), by); err != nil {
		t.Error(err)
	}
}

// Earlier versions stored any debug_until. Such a value has effect for at most
// a day after the last change of the key, and the key can still be changed.
func TestStoredDebugUntil(t *testing.T) {
	w := oldWorld(t)
	made := w.create()
	far := epoch.AddDate(1, 0, 0)
	w.tamper(made.ID, func(r *store.Record) { r.DebugUntil = far })
	if key := w.fresh(made.ID); !key.DebugUntil.Equal(epoch.Add(24 * time.Hour)) {
		t.Errorf("debugged until %s", key.DebugUntil)
	}
	if changed, err := w.Update(t.Context(), made.ID, []byte(`{"description":"x"}`), by); err != nil || !changed.DebugUntil.Equal(far) {
		t.Errorf("%+v, %v", changed.DebugUntil, err)
	}
	if _, err := w.Update(t.Context(), made.ID, []byte(`{"debug_until":"2026-11-28T13:00:00Z"}`), by); err != nil {
		t.Error(err)
	}
	if key := w.fresh(made.ID); !key.DebugUntil.Equal(epoch.Add(time.Hour)) {
		t.Errorf("debugged until %s", key.DebugUntil)
	}
}
