package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// testPut checks that a record is written only if its condition holds.
func testPut(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.record()
	if _, err := w.Backend.Get(ctx, r.ID); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get of an unknown key: %v, want ErrNotFound", err)
	}
	w.put(r, store.PutOptions{})
	w.get(r.ID)

	next := func() *store.Record {
		c := r.Clone()
		c.Revision, c.Tenant = random(), "other"
		return c
	}
	missing := w.record()
	for _, tt := range []struct {
		name   string
		record *store.Record
		expect string
		want   error
	}{
		{"there is one already", next(), "", store.ErrExists},
		{"another revision is stored", next(), random(), store.ErrConflict},
		{"there is none", missing, random(), store.ErrConflict},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.TB = t
			if _, err := w.Backend.Put(ctx, tt.record, store.PutOptions{Expect: tt.expect}); !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			w.get(r.ID)
		})
	}
	w.TB = t
	if _, err := w.Backend.Get(ctx, missing.ID); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get after a refused Put: %v, want ErrNotFound", err)
	}

	// The caller's record and the stored one share nothing.
	kept := r.Clone()
	r.Scopes[0] = "*"
	got, err := w.Backend.Get(ctx, kept.ID)
	if err != nil || got.Scopes[0] != kept.Scopes[0] {
		t.Fatalf("%v, %v: a record that was given away changed the stored one", got, err)
	}
	got.Scopes[0] = "*"
	w.get(kept.ID)
}

// testDelete checks that Delete removes the record, the count and the buckets, and
// keeps the nonces.
func testDelete(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.newKey()
	w.fail(r, 3)
	c := w.claim(r)
	c.Charges = []ratelimit.Charge{charge(w, "issue_card", "5/1d")}
	w.expect(c, auth.Accepted)
	w.fail(r, 3)

	if _, err := w.Backend.Delete(ctx, r.ID, random()); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("Delete of another revision: %v, want ErrConflict", err)
	}
	w.get(r.ID)
	w.delete(r)
	if _, err := w.Backend.Get(ctx, r.ID); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Get after Delete: %v, want ErrNotFound", err)
	}
	if _, err := w.Backend.Delete(ctx, r.ID, r.Revision); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("second Delete: %v, want ErrNotFound", err)
	}

	r.Revision = random()
	w.put(r, store.PutOptions{})
	if got := w.get(r.ID); got.Failures != 0 {
		t.Fatalf("count %d of a key that was made again, want 0", got.Failures)
	}
	again := w.claim(r)
	again.Nonce, again.Charges = c.Nonce, c.Charges
	w.expect(again, auth.ReplayedNonce)
	again.Nonce = nonce()
	if v := w.expect(again, auth.Accepted); v.States[0].Remaining != 4 {
		t.Fatalf("%d left in a bucket of a key that was made again, want 4", v.States[0].Remaining)
	}
	w.get(r.ID)

	if _, err := w.Backend.Delete(ctx, r.ID, ""); err != nil {
		t.Fatalf("Delete of whatever revision: %v", err)
	}
}

// testRecordKept checks that every field is read as it was written, also after
// the backend itself has written a lock into the record.
func testRecordKept(t *testing.T, open Factory) {
	w := newWorld(t, open)
	r := w.record()
	at := w.Now().UTC().Truncate(time.Second)
	r.Description = "emoji \U0001f511, quotes \" and \\, <tags> & \u2028, a line\nfeed"
	r.AllowedIPs = []string{"192.0.2.0/24", "2001:db8::/32"}
	r.Scopes = []string{"*"}
	r.ExpiresAt = at.Add(time.Hour)
	r.Limits = map[string]json.RawMessage{
		"default": json.RawMessage(`"60/1m"`),
		"total":   json.RawMessage(`{"limit":"9007199254740993/1m","until":"2030-01-01T00:00:00Z"}`),
	}
	r.CustomerVariant = "B"
	r.DebugUntil = at.Add(time.Minute + time.Nanosecond)
	r.Imported = true
	r.Seal = []byte{1, 0, 255}
	r.Secrets = []store.SealedSecret{
		{Version: 12, Sealed: []byte{0, 1, 254, 255}, Fingerprint: []byte{7}, CreatedAt: at},
		{Version: 11, Sealed: []byte("x"), Fingerprint: []byte{8}, CreatedAt: at, ExpiresAt: at.Add(time.Hour)},
	}
	w.put(r, store.PutOptions{})
	w.get(r.ID)
	w.fail(r, 2)
	c := w.claim(r)
	c.LockAfter = 2
	w.expect(c, auth.KeyLocked)
	w.get(r.ID)

	bare := w.record()
	bare.Scopes = []string{}
	w.put(bare, store.PutOptions{})
	w.get(bare.ID)
}

// testList checks that a listing in pages has every record once, and that the
// order does not depend on the size of the pages.
func testList(t *testing.T, open Factory) {
	w := newWorld(t, open)
	want := map[string]bool{}
	for range 57 {
		want[w.newKey().ID] = true
	}
	var first []string // the order of the first listing
	for _, limit := range []int{1, 7, 57, 1000} {
		t.Run(fmt.Sprintf("pages of %d", limit), func(t *testing.T) {
			w.TB = t
			all, _ := w.listAll(limit)
			order := slices.DeleteFunc(all, func(id string) bool { return !want[id] })
			if len(order) != len(want) {
				t.Fatalf("%d of %d records are listed", len(order), len(want))
			}
			if first == nil {
				first = order
			}
			if !slices.Equal(order, first) {
				t.Fatalf("the order is\n%q\nand was, in pages of another size,\n%q", order, first)
			}
		})
	}
}

// listAll lists all records in pages, while another key is created and deleted,
// and returns their ids, and the keys whose records cannot be read. It fails if a
// record is listed twice or differs from the stored one.
func (w *world) listAll(limit int) (ids []string, damaged []*store.DamagedError) {
	w.Helper()
	seen := map[string]bool{}
	for cursor, pages := "", 0; ; pages++ {
		page, err := w.Backend.List(ctx, cursor, limit)
		if err != nil {
			w.Fatal(err)
		}
		if n := len(page.Records) + len(page.Damaged); n > limit || pages > 1000 {
			w.Fatalf("page %d has %d records, at most %d were asked for", pages, n, limit)
		}
		damaged = append(damaged, page.Damaged...)
		for _, r := range page.Records {
			if seen[r.ID] {
				w.Fatalf("%s is listed twice", r.ID)
			}
			seen[r.ID] = true
			ids = append(ids, r.ID)
			if got, want := plain(w, r), plain(w, w.model.key(r.ID).record); got != want {
				w.Fatalf("listed\n%s\nwant\n%s", got, want)
			}
		}
		if pages == 1 && limit == 7 {
			w.delete(w.newKey())
		}
		if cursor = page.Next; cursor == "" {
			return ids, damaged
		}
	}
}

// testMeta checks that a small named value is written once, and is removed only
// if it is the given one.
func testMeta(t *testing.T, open Factory) {
	w := newWorld(t, open)
	name := "name of " + random()
	if _, err := w.Backend.Meta(ctx, name); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Meta of an unknown name: %v, want ErrNotFound", err)
	}
	value := func() string {
		t.Helper()
		b, err := w.Backend.Meta(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	put := func(v string) string {
		t.Helper()
		b, err := w.Backend.PutMeta(ctx, name, []byte(v))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	remove := func(v string) {
		t.Helper()
		if err := w.Backend.DeleteMeta(ctx, name, []byte(v)); err != nil {
			t.Fatalf("DeleteMeta: %v", err)
		}
	}
	first := "\x00\xff \"first\""
	remove("a value of a name that is not there")
	for i, got := range []string{put(first), put("second"), value()} {
		if got != first {
			t.Fatalf("step %d: %q, want %q", i, got, first)
		}
	}
	remove("another value")
	if got := value(); got != first {
		t.Fatalf("%q after a removal of another value, want %q", got, first)
	}
	remove(first)
	if _, err := w.Backend.Meta(ctx, name); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Meta after DeleteMeta: %v, want ErrNotFound", err)
	}
	if got := put("third"); got != "third" {
		t.Fatalf("PutMeta after DeleteMeta: %q", got)
	}
}
