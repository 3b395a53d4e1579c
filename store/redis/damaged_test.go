package redis

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// damages are ways in which something other than a gateway makes a record
// unreadable, by name.
func damages(s *Store) map[string]func(t testing.TB, id string) {
	all := make(map[string]func(t testing.TB, id string))
	for name, doc := range damagedDocuments {
		all[name] = func(t testing.TB, id string) { setField(t, s, id, "doc", doc) }
	}
	for name, values := range map[string][2]string{
		"count": {"fails", "x"}, "negative count": {"fails", "-1"}, "lock": {"lock", "1 2"},
		"lock in a year that JSON has not": {"lock", "9223372036854775807 0 1"}, "lock until then": {"lock", "1 9223372036854775807 1"},
		"negative failures of a lock": {"lock", "1 2 -3"}, "last use in such a year": {"last:1", "153722867280912930"}, "last use out of range": {"last:1", "9223372036854775807"},
		"last use": {"last:1", "x"}, "secret version": {"last:x", "1"},
	} {
		all[name] = func(t testing.TB, id string) { setField(t, s, id, values[0], values[1]) }
	}
	all["another type"] = func(t testing.TB, id string) {
		t.Helper()
		if err := s.client.Set(ctx, s.names.record(id), "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// hidden stands for a part of a secret in a damaged document.
const hidden = "Q0FOQVJZ"

var damagedDocuments = map[string]string{
	"cut off":           `{"id":"a","secrets":[{"version":1,"sealed":"` + hidden,
	"empty":             "",
	"no object":         `"` + hidden + `"`,
	"a number":          "123456789",
	"null":              "null",
	"wrong type":        `{"tenant":123456789}`,
	"wrong time":        `{"created_at":"` + hidden + `"}`,
	"wrong base64":      `{"secrets":[{"sealed":"` + hidden + `!"}]}`,
	"a number too long": `{"secrets":[{"version":123456789123456789123456789}]}`,
	"of another key":    `{"id":"ck_live_other"}`,
}

func setField(t testing.TB, s *Store, id, field, value string) {
	t.Helper()
	if err := s.client.HSet(ctx, s.names.record(id), field, value).Err(); err != nil {
		t.Fatal(err)
	}
}

// What is reported of a damaged record holds nothing that is in the record.
func TestDamagedRecordIsNotShown(t *testing.T) {
	s := open(t, single(t))
	for name, doc := range damagedDocuments {
		r := newKey(t, s)
		setField(t, s, r.ID, "doc", doc)
		var damaged *store.DamagedError
		_, err := s.Get(ctx, r.ID)
		if !errors.As(err, &damaged) || damaged.Revision != r.Revision {
			t.Errorf("%s: %v, want a DamagedError with the revision", name, err)
			continue
		}
		for _, part := range []string{hidden, "123456789"} {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Requests with a key whose record is too large for a reply fail by themselves: the
// server has answered, and no breaker counts them.
func TestDamagedRecordIsAnAnswer(t *testing.T) {
	p := redistest.Own(t, false)
	s := open(t, Options{Options: rpc.Options{URL: p.URL()}})
	bad, good := newKey(t, s), newKey(t, s)
	setField(t, s, bad.ID, "more", strings.Repeat("a", rpc.MaxReplyBytes))
	for range 2 * manyFailures {
		var damaged *store.DamagedError
		if _, err := s.Get(ctx, bad.ID); !errors.As(err, &damaged) {
			t.Fatalf("%v, want a DamagedError", err)
		}
	}
	stats := p.Do(t, "info", "commandstats").(string)
	if _, read, _ := strings.Cut(stats, "cmdstat_hgetall:calls="); !strings.HasPrefix(read, "1,") {
		t.Errorf("the large record was not read once: %s", stats)
	}
	if err := s.client.Breaker(rpc.TheServer).Refused(); err.Error() != rpc.ErrOpen.Error() {
		t.Errorf("the breaker counts a failure: %v", err)
	}
	expect(t, s, newClaim(good), auth.Accepted)
	page, err := s.List(ctx, "", 10)
	if err != nil || len(page.Records) != 1 || len(page.Damaged) != 1 || page.Damaged[0].ID != bad.ID {
		t.Errorf("listed %+v, %v; want one record and one damaged key", page, err)
	}
}

// Every record that the gateway can write is read: none is too large.
func TestLargestRecordIsRead(t *testing.T) {
	s := open(t, single(t))
	r := newRecord()
	r.Description = strings.Repeat("\x01", 256<<10) // as much as the admin API takes, and six times as long in JSON
	r.Limits = map[string]json.RawMessage{"default": json.RawMessage(`"60/1m"`)}
	r.CreatedAt = time.Now().UTC()
	if _, err := s.Put(ctx, r, store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(ctx, r.ID); err != nil || got.Description != r.Description {
		t.Errorf("%v", err)
	}
}
