package keys_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/store"
)

func TestFieldsAreChecked(t *testing.T) {
	w := newWorld(t, func(o *keys.Options) {
		o.CheckLimits = func(limits map[string]json.RawMessage) error {
			if _, ok := limits["nope"]; ok {
				return errors.New("no operation is named nope")
			}
			return nil
		}
		o.CheckScopes = func(scopes []string) error {
			if slices.Contains(scopes, "card:read") {
				return errors.New("no scope is named card:read")
			}
			return nil
		}
	})
	tests := []struct {
		change func(*keys.CreateRequest)
		want   string // start of the error; empty: accepted
	}{
		{func(r *keys.CreateRequest) {}, ""},
		{func(r *keys.CreateRequest) { r.Tenant = strings.Repeat("a", 64) }, ""},
		{func(r *keys.CreateRequest) { r.Tenant = "" }, "tenant: "},
		{func(r *keys.CreateRequest) { r.Tenant = strings.Repeat("a", 65) }, "tenant: "},
		{func(r *keys.CreateRequest) { r.Tenant = "a b" }, "tenant: "},
		{func(r *keys.CreateRequest) { r.Tenant = "a\n" }, "tenant: "},
		{func(r *keys.CreateRequest) { r.Description = "Zoë's key" }, ""},
		{func(r *keys.CreateRequest) { r.Description = "a\x1b[2J" }, "description: "},
		{func(r *keys.CreateRequest) { r.Description = strings.Repeat("a", 501) }, "description: "},
		{func(r *keys.CreateRequest) { r.Scopes = nil }, "scopes: at least one"},
		{func(r *keys.CreateRequest) { r.Scopes = []string{} }, "scopes: at least one"},
		{func(r *keys.CreateRequest) { r.Scopes = []string{"Cards Read"} }, "scopes: "},
		{func(r *keys.CreateRequest) { r.Scopes = []string{"card:read"} }, "scopes: no scope is named"},
		{func(r *keys.CreateRequest) { r.Scopes = slices.Repeat([]string{"cards:read"}, 257) }, "scopes, allowed_ips and limits hold at most 256 entries each"},
		{func(r *keys.CreateRequest) { r.AllowedIPs = []string{} }, "allowed_ips: an empty list"},
		{func(r *keys.CreateRequest) { r.AllowedIPs = []string{"10.0.0.0/8", "2001:db8::/48"} }, ""},
		{func(r *keys.CreateRequest) { r.AllowedIPs = []string{"10.0.0.0/33"} }, "allowed_ips: "},
		{func(r *keys.CreateRequest) { r.Limits = limits("issue_card", `"60/1m"`) }, ""},
		{func(r *keys.CreateRequest) { r.Limits = limits("issue_card", `"often"`) }, "limits: "},
		{func(r *keys.CreateRequest) { r.Limits = limits("nope", `"60/1m"`) }, "limits: no operation"},
		{func(r *keys.CreateRequest) { r.CustomerVariant = "a" }, "customer_variant: "},
		{func(r *keys.CreateRequest) { r.Mode = "prod" }, "mode: "},
	}
	for i, test := range tests {
		req := keys.CreateRequest{Fields: acme()}
		test.change(&req)
		_, err := w.Create(t.Context(), req, by)
		var bad *fields.InvalidError
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%d: %v", i, err)
		case test.want != "" && (!errors.As(err, &bad) || !strings.HasPrefix(err.Error(), test.want)):
			t.Errorf("%d: %v, want %q", i, err, test.want)
		}
	}
}

func limits(name, value string) map[string]json.RawMessage {
	return map[string]json.RawMessage{name: json.RawMessage(value)}
}

func TestUpdate(t *testing.T) {
	start := store.Fields{
		Tenant: "acme", Description: "old", Scopes: []string{"*"}, AllowedIPs: []string{"192.0.2.1"},
		ExpiresAt: epoch.Add(time.Hour), CustomerVariant: "A",
		Limits: map[string]json.RawMessage{"total": json.RawMessage(`"9/1s"`), "default": json.RawMessage(`{"limit":"5/1s","until":"2030-01-01T00:00:00Z"}`)},
	}
	tests := []struct {
		name, patch, want string // want: start of the error, or of the changed part of the view
	}{
		{"nothing", `{}`, ``},
		{"text", `{"description":"new"}`, `description="new"`},
		{"cleared", `{"description":null,"expires_at":null,"customer_variant":null,"allowed_ips":null,"limits":null}`,
			`allowed_ips=null customer_variant=null description="" expires_at=null limits=null`},
		{"list is replaced", `{"scopes":["cards:read"]}`, `scopes=["cards:read"]`},
		{"object is merged", `{"limits":{"total":null,"issue_card":"1/1m"}}`,
			`limits={"default":{"limit":"5/1s","until":"2030-01-01T00:00:00Z"},"issue_card":"1/1m"}`},
		{"and merged below", `{"limits":{"default":{"until":null}}}`, `limits={"default":{"limit":"5/1s"},"total":"9/1s"}`},
		{"disabled", `{"disabled":true}`, `disabled=true status="disabled"`},
		{"tenant", `{"tenant":"other"}`, `tenant="other"`},
		{"time", `{"expires_at":"2027-01-01T02:00:00+02:00"}`, `expires_at="2027-01-01T00:00:00Z"`},
		{"debug", `{"debug_until":"2026-11-29T12:00:00Z"}`, `debug_until="2026-11-29T12:00:00Z"`},
		{"debug for long", `{"debug_until":"2026-11-29T12:00:01Z"}`, `error: debug_until: at most 24 hours ahead`},

		{"fixed", `{"revision":"x"}`, `error: revision: cannot be changed`},
		{"fixed, id", `{"id":"x"}`, `error: id: cannot be changed`},
		{"unknown", `{"scope":["*"]}`, `error: scope: unknown field; these can be changed: tenant, `},
		{"wrong case", `{"Scopes":["*"]}`, `error: Scopes: unknown field`},
		{"twice", `{"tenant":"a","tenant":"b"}`, `error: malformed JSON`},
		{"required", `{"scopes":null}`, `error: scopes: at least one`},
		{"required, tenant", `{"tenant":null}`, `error: tenant: want`},
		{"empty scopes", `{"scopes":[]}`, `error: scopes: at least one`},
		{"empty whitelist", `{"allowed_ips":[]}`, `error: allowed_ips: an empty list`},
		{"wrong type", `{"disabled":"yes"}`, `error: disabled: a JSON string does not fit`},
		{"wrong type in a list", `{"scopes":["*",7]}`, `error: scopes.1: a JSON number does not fit`},
		{"no time", `{"expires_at":"tomorrow"}`, `error: expires_at: want a time as in RFC 3339`},
		{"bad limit", `{"limits":{"total":"lots"}}`, `error: limits: `},
		{"no object", `["*"]`, `error: malformed JSON: want a JSON object`},
		{"null", `null`, `error: malformed JSON`},
		{"empty", ``, `error: malformed JSON`},
		{"cut", `{"tenant":`, `error: malformed JSON`},
		{"two values", `{} {}`, `error: malformed JSON`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			made, err := w.Create(t.Context(), keys.CreateRequest{Fields: start}, by)
			if err != nil {
				t.Fatal(err)
			}
			before := w.record(made.ID)
			changed, err := w.Update(t.Context(), made.ID, []byte(test.patch), by)
			if want, isError := strings.CutPrefix(test.want, "error: "); isError {
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
				if w.record(made.ID) != before {
					t.Error("the record was changed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if changed.Revision == made.Revision || len(changed.Revision) != 16 {
				t.Errorf("revision %q after %q", changed.Revision, made.Revision)
			}
			if got := viewDiff(t, made.View, changed.View); got != test.want {
				t.Errorf("changed\n%s\nwant\n%s", got, test.want)
			}
			if shown, err := w.Show(t.Context(), made.ID); err != nil || viewDiff(t, changed.View, shown) != "" {
				t.Errorf("shown afterwards: %+v, %v", shown, err)
			}
		})
	}
}

// viewDiff returns the fields that differ, as name=new, without revision, seal and
// updated_at.
func viewDiff(t *testing.T, before, after keys.View) string {
	t.Helper()
	fields := func(v keys.View) map[string]json.RawMessage {
		v.Revision, v.UpdatedAt, v.Seal = "", time.Time{}, keys.SealView{}
		doc, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		m := make(map[string]json.RawMessage)
		if err := json.Unmarshal(doc, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	old := fields(before)
	var changed []string
	for name, value := range fields(after) {
		if string(old[name]) != string(value) {
			changed = append(changed, name+"="+string(value))
		}
	}
	slices.Sort(changed)
	return strings.Join(changed, " ")
}

func TestDisableLockAndUnlock(t *testing.T) {
	w := oldWorld(t)
	id := w.create().ID
	status := func(want string, disabled, locked bool) {
		t.Helper()
		v, err := w.Show(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		key := w.fresh(id)
		if v.Status != want || v.Disabled != disabled || (v.Lock != nil) != locked || key.Disabled != disabled || (key.Lock != nil) != locked {
			t.Errorf("status %s, disabled %v, lock %v; want %s, %v, %v", v.Status, v.Disabled, v.Lock, want, disabled, locked)
		}
	}
	do := func(f func() (keys.Changed, error)) {
		t.Helper()
		if _, err := f(); err != nil {
			t.Fatal(err)
		}
	}
	status("active", false, false)
	do(func() (keys.Changed, error) { return w.Disable(t.Context(), id, by) })
	do(func() (keys.Changed, error) { return w.Disable(t.Context(), id, by) })
	status("disabled", true, false)
	w.tamper(id, func(r *store.Record) { r.Lock = &auth.Lock{At: epoch, Failures: 50} })
	status("disabled", true, true)
	do(func() (keys.Changed, error) { return w.Enable(t.Context(), id, by) })
	status("locked", false, true)
	do(func() (keys.Changed, error) { return w.Disable(t.Context(), id, by) })
	do(func() (keys.Changed, error) { return w.Unlock(t.Context(), id, by) })
	status("disabled", true, false)
	do(func() (keys.Changed, error) { return w.Enable(t.Context(), id, by) })
	status("active", false, false)
	w.tamper(id, func(r *store.Record) { r.Lock = &auth.Lock{At: epoch, Until: epoch.Add(time.Minute), Failures: 50} })
	status("locked", false, true)
	w.pass(time.Minute)
	status("active", false, true)
	w.tamper(id, func(r *store.Record) { r.ExpiresAt = w.clock() })
	status("expired", false, true)
}

func TestUnknownKeysCannotBeChanged(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"nobody", "", "a/b", "{x}"} {
		for name, f := range map[string]func() error{
			"show":    func() error { _, err := w.Show(t.Context(), id); return err },
			"update":  func() error { _, err := w.Update(t.Context(), id, []byte(`{}`), by); return err },
			"disable": func() error { _, err := w.Disable(t.Context(), id, by); return err },
			"rotate":  func() error { _, err := w.Rotate(t.Context(), id, keys.Rotation{Overlap: 0}, by); return err },
			"delete":  func() error { _, err := w.Delete(t.Context(), id, by); return err },
		} {
			if err := f(); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s %q: %v", name, id, err)
			}
		}
	}
	if len(w.changes) != 4*4 {
		t.Errorf("%d refused changes were audited, want 16", len(w.changes))
	}
	for _, c := range w.changes {
		if !c.Refused() || c.Actor != by.Actor || c.Fields != nil || c.Action == "" {
			t.Errorf("audited: %+v", c)
		}
	}
}

func TestRevisionIsAPrecondition(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	changed, err := w.Disable(t.Context(), made.ID, keys.By{Actor: "alice", Revision: made.Revision})
	if err != nil {
		t.Fatal(err)
	}
	old := keys.By{Actor: "bob", Revision: made.Revision}
	if _, err := w.Enable(t.Context(), made.ID, old); !errors.Is(err, keys.ErrRevision) {
		t.Errorf("enable: %v", err)
	}
	if _, err := w.Delete(t.Context(), made.ID, old); !errors.Is(err, keys.ErrRevision) {
		t.Errorf("delete: %v", err)
	}
	if _, err := w.Delete(t.Context(), made.ID, keys.By{Revision: changed.Revision}); err != nil {
		t.Errorf("delete of the present revision: %v", err)
	}
}

func TestConcurrentChangesAreAllKept(t *testing.T) {
	w := newWorld(t)
	id := w.create().ID
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			patch := fmt.Sprintf(`{"limits":{"op%d":"%d/1m"}}`, i, i+1)
			for {
				_, err := w.Update(t.Context(), id, []byte(patch), by)
				if !errors.Is(err, store.ErrConflict) {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	v, err := w.Show(t.Context(), id)
	if err != nil || len(v.Limits) != 16 {
		t.Errorf("%d of 16 changes are there, %v", len(v.Limits), err)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	var all, disabled []string
	for i := range 30 {
		fields := acme()
		fields.Tenant, fields.Disabled = fmt.Sprintf("t%d", i%3), i%10 == 0
		made, err := w.Create(t.Context(), keys.CreateRequest{Fields: fields}, by)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, made.ID)
		if fields.Disabled {
			disabled = append(disabled, made.ID)
		}
	}
	collect := func(q keys.ListQuery) (ids []string) {
		t.Helper()
		for {
			views, next, err := w.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(views) > q.Limit {
				t.Errorf("%d keys on a page of %d", len(views), q.Limit)
			}
			for _, v := range views {
				ids = append(ids, v.ID)
			}
			if q.Cursor = next; next == "" {
				slices.Sort(ids)
				return ids
			}
		}
	}
	slices.Sort(all)
	slices.Sort(disabled)
	for _, limit := range []int{1, 7, 30, 500} {
		if got := collect(keys.ListQuery{Limit: limit}); !slices.Equal(got, all) {
			t.Errorf("limit %d: %d keys, want all 30 once", limit, len(got))
		}
		if got := collect(keys.ListQuery{Limit: limit, Status: "disabled"}); !slices.Equal(got, disabled) {
			t.Errorf("limit %d: disabled %v, want %v", limit, got, disabled)
		}
		if got := collect(keys.ListQuery{Limit: limit, Tenant: "t1"}); len(got) != 10 {
			t.Errorf("limit %d: %d keys of t1, want 10", limit, len(got))
		}
	}
	for _, q := range []keys.ListQuery{{Limit: 0}, {Limit: 501}, {Limit: 1, Status: "gone"}} {
		var bad *fields.InvalidError
		if _, _, err := w.List(t.Context(), q); !errors.As(err, &bad) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestCensus(t *testing.T) {
	w := newWorld(t)
	for _, expires := range []time.Duration{0, -time.Hour, time.Hour, 3 * 24 * time.Hour, 8 * 24 * time.Hour, 365 * 24 * time.Hour} {
		fields := acme()
		if expires != 0 {
			fields.ExpiresAt = epoch.Add(expires)
		}
		for _, disabled := range []bool{false, true} {
			fields.Disabled = disabled
			if _, err := w.Create(t.Context(), keys.CreateRequest{Fields: fields}, by); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := w.Census(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Keys, c.Expiring)
	if want := "map[active:5 disabled:6 expired:1 forged:0 locked:0 unreadable:0] map[1d:1 30d:3 7d:2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if s := w.Status(t.Context()); !s.Store.Ready || s.Keys["active"] != 5 || s.Problem != "" {
		t.Errorf("status %+v", s)
	}
}

// TestFailedCensusHasNoNumbers: nobody may take keys that were not counted for none.
func TestFailedCensusHasNoNumbers(t *testing.T) {
	w := newWorld(t)
	w.create()
	w.backend.down.Store(true)
	if s := w.Status(t.Context()); s.Problem == "" || s.Keys != nil || s.Expiring != nil || s.SealedBy != nil || s.Seals != nil {
		t.Errorf("status %+v", s)
	}
}
