package keys_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/store"
)

func TestRotateOverlaps(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	rotate := func(overlap time.Duration) string {
		t.Helper()
		changed, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: overlap}, by)
		if err != nil {
			t.Fatal(err)
		}
		return changed.Secret
	}
	accepts := func(want string, secrets ...string) {
		t.Helper()
		cached := fmt.Sprint(w.accepts(w.lookup(made.ID), secrets...))
		stored := fmt.Sprint(w.accepts(w.fresh(made.ID), secrets...))
		if cached != want || stored != want {
			t.Errorf("accepts %s from memory, %s as stored; want %s", cached, stored, want)
		}
	}
	one := made.Secret
	two := rotate(time.Hour)
	accepts("[true true]", one, two)
	if newest := w.fresh(made.ID).Secrets[0].Version(); newest != 2 {
		t.Errorf("the first secret to try is version %d, want the newest, 2", newest)
	}
	w.pass(time.Hour - time.Nanosecond)
	accepts("[true true]", one, two)
	w.pass(time.Nanosecond)
	accepts("[false true]", one, two)
	three := rotate(time.Hour)
	four := rotate(2 * time.Hour) // a third live one ends the oldest at once
	accepts("[false false true true]", one, two, three, four)
	five := rotate(0)
	accepts("[false false false false true]", one, two, three, four, five)
	if v, err := w.Show(t.Context(), made.ID); err != nil || len(v.Secrets) != 1 || v.Secrets[0].Version != 5 {
		t.Errorf("secrets %+v, %v", v.Secrets, err)
	}
	for _, overlap := range []time.Duration{-1, keys.MaxOverlap + 1} {
		var bad *fields.InvalidError
		if _, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: overlap}, by); !errors.As(err, &bad) {
			t.Errorf("overlap %s: %v", overlap, err)
		}
	}
}

func TestRotationDoesNotProlongASecret(t *testing.T) {
	w := oldWorld(t)
	made := w.create()
	w.tamper(made.ID, func(r *store.Record) { r.Secrets[0].ExpiresAt = epoch.Add(time.Minute) })
	changed, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: time.Hour}, by)
	if err != nil {
		t.Fatal(err)
	}
	if end := changed.Secrets[1].ExpiresAt; end == nil || !end.Equal(epoch.Add(time.Minute)) {
		t.Errorf("the old secret ends %v", end)
	}
}

const legacy = "an old secret of 30 bytes text"

func TestImport(t *testing.T) {
	w := newWorld(t)
	tests := []struct{ id, secret, want string }{
		{"legacy-1", legacy, ""},
		{"key:7@acme.example", legacy + "2", ""},
		{strings.Repeat("a", 128), legacy + "3", ""},
		{"legacy-2", legacy, "this secret is in use under another key id"},
		{"legacy-1", legacy + "4", "a key of this id exists already"},
		{"legacy-1", legacy, "a key of this id exists already"},
		{"", legacy + "5", "id: want 1 to 128"},
		{"a b", legacy + "5", "id: want"},
		{"a/b", legacy + "5", "id: want"},
		{"..", legacy + "5", "id: want"},
		{"a{b}", legacy + "5", "id: want"},
		{strings.Repeat("a", 129), legacy + "5", "id: want"},
		{"legacy-3", "15 bytes of text"[:15], "secret: want at least 16 bytes"},
		{"legacy-3", "", "secret: want at least 16 bytes"},
		{"legacy-3", legacy + "\n", "secret: control characters"},
		{"legacy-3", legacy + "\xff", "secret: control characters and invalid UTF-8"},
		{"legacy-3", strings.Repeat("a", 40), "secret: one character repeated"},
		{"legacy-3", strings.Repeat("ab", 600), "secret: at most 1024"},
	}
	for _, test := range tests {
		changed, err := w.Import(t.Context(), keys.ImportRequest{Fields: acme(), ID: test.id, Secret: test.secret}, by)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.id, err)
		case test.want == "":
			if got := w.accepts(w.lookup(test.id), test.secret); !got[0] || !changed.Imported || changed.Secret != "" {
				t.Errorf("%s: imported %+v, accepts its secret: %v", test.id, changed, got)
			}
		case err == nil || !strings.HasPrefix(err.Error(), test.want):
			t.Errorf("%s: %v, want %q", test.id, err, test.want)
		case len(test.secret) > 8 && strings.Contains(err.Error(), test.secret):
			t.Errorf("%s: the error shows the secret: %v", test.id, err)
		}
	}
	if got := w.accepts(w.fresh("legacy-1"), legacy); !got[0] {
		t.Error("a refused import harmed the key")
	}
}

func TestSecretIsFreeWhenNobodyUsesIt(t *testing.T) {
	imports := func(w *world, id string) error {
		_, err := w.Import(w.t.Context(), keys.ImportRequest{Fields: acme(), ID: id, Secret: legacy}, by)
		return err
	}
	tests := []struct {
		name string
		then func(w *world) error // after "first" was imported
		free bool
	}{
		{"in use", func(*world) error { return nil }, false},
		{"disabled", func(w *world) error { _, err := w.Disable(w.t.Context(), "first", by); return err }, false},
		{"deleted", func(w *world) error { _, err := w.Delete(w.t.Context(), "first", by); return err }, true},
		{"rotated, in overlap", func(w *world) error {
			_, err := w.Rotate(w.t.Context(), "first", keys.Rotation{Overlap: time.Hour}, by)
			return err
		}, false},
		{"rotated, over", func(w *world) error {
			_, err := w.Rotate(w.t.Context(), "first", keys.Rotation{Overlap: time.Hour}, by)
			w.pass(time.Hour)
			return err
		}, false},
		{"retired", func(w *world) error { _, err := w.Rotate(w.t.Context(), "first", keys.Rotation{}, by); return err }, false},
		{"retired for 30 days", func(w *world) error {
			_, err := w.Rotate(w.t.Context(), "first", keys.Rotation{}, by)
			w.pass(30 * 24 * time.Hour)
			return err
		}, true},
		{"rotated and forgotten", func(w *world) error {
			_, err := w.Rotate(w.t.Context(), "first", keys.Rotation{Forget: true}, by)
			return err
		}, true},
		{"retired, forgotten later", func(w *world) error {
			_, err := w.Rotate(w.t.Context(), "first", keys.Rotation{}, by)
			return errors.Join(err, func() error {
				_, err := w.Rotate(w.t.Context(), "first", keys.Rotation{Overlap: time.Hour, Forget: true}, by)
				return err
			}())
		}, true},
		{"the record lost in a crash", func(w *world) error {
			_, err := w.backend.Backend.Delete(w.t.Context(), "first", "")
			return err
		}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if err := imports(w, "first"); err != nil {
				t.Fatal(err)
			}
			if err := test.then(w); err != nil {
				t.Fatal(err)
			}
			err := imports(w, "second")
			if test.free && err != nil || !test.free && !errors.Is(err, keys.ErrSecretInUse) {
				t.Errorf("import under another id: %v", err)
			}
			if test.free {
				if err := imports(w, "third"); !errors.Is(err, keys.ErrSecretInUse) {
					t.Errorf("and once more: %v", err)
				}
			}
		})
	}
}

func TestSecretOfAMadeKeyCannotBeImported(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	rotated, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: time.Hour}, by)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{made.Secret, rotated.Secret} {
		if _, err := w.Import(t.Context(), keys.ImportRequest{Fields: acme(), ID: "x", Secret: secret}, by); !errors.Is(err, keys.ErrSecretInUse) {
			t.Errorf("import: %v", err)
		}
	}
}

// Two gateways import one secret under two ids at the same time, in every order
// that their first calls to the backend can take.
func TestOneSecretNeverGetsTwoKeys(t *testing.T) {
	const calls = 6
	w := newWorld(t)
	ids := []string{"id-0", "id-1"}
	var gateways []*gateway
	for range ids {
		g := &gateway{watched: &watched{Backend: w.backend.Backend}, asks: make(chan struct{}), grants: make(chan struct{}), done: make(chan error)}
		w.backend = g.watched
		g.keys = w.service(ring(t, masterKey(1)))
		if err := g.keys.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.before = func(string) { g.asks <- struct{}{}; <-g.grants }
		gateways = append(gateways, g)
	}
	for order := range 1 << calls {
		for i, g := range gateways {
			go func() {
				_, err := g.keys.Import(t.Context(), keys.ImportRequest{Fields: acme(), ID: ids[i], Secret: legacy}, by)
				g.done <- err
			}()
		}
		results := interleave(order, gateways)
		made := 0
		for i, id := range ids {
			_, err := w.backend.Backend.Delete(t.Context(), id, "")
			exists := err == nil
			if exists {
				made++
			}
			if err := results[i]; (err == nil) != exists || err != nil && !errors.Is(err, keys.ErrSecretInUse) {
				t.Fatalf("order %b: import %d said %v, and its key exists: %v", order, i, err, exists)
			}
		}
		if made > 1 {
			t.Fatalf("order %b: two keys share a secret", order)
		}
	}
}

// gateway is a key service whose backend calls wait to be granted.
type gateway struct {
	*watched
	keys         *keys.Service
	asks, grants chan struct{}
	done         chan error
}

// interleave grants calls in the order of the bits, the lowest first, and
// returns the error of each gateway's import.
func interleave(order int, gateways []*gateway) []error {
	results := make([]error, len(gateways))
	waiting, finished := make([]bool, len(gateways)), make([]bool, len(gateways))
	for ; ; order >>= 1 {
		for i, g := range gateways {
			if waiting[i] || finished[i] {
				continue
			}
			select {
			case <-g.asks:
				waiting[i] = true
			case results[i] = <-g.done:
				finished[i] = true
			}
		}
		next := order & 1
		if finished[next] {
			next = 1 - next
		}
		if finished[next] {
			return results
		}
		waiting[next] = false
		gateways[next].grants <- struct{}{}
	}
}

func TestEveryChangeIsReported(t *testing.T) {
	w := newWorld(t)
	made := w.create()
	var secrets []string
	secrets = append(secrets, made.Secret, legacy)
	steps := []struct {
		do   func() error
		want string // action and the names of the changed fields
	}{
		{func() error { return nil }, "create by alice on acme: scopes sealed secrets tenant"},
		{func() error {
			_, err := w.Update(t.Context(), made.ID, []byte(`{"tenant":"other","scopes":["*"],"description":"x"}`), by)
			return err
		}, "update by alice on other: description tenant"},
		{func() error { _, err := w.Disable(t.Context(), made.ID, by); return err }, "disable by alice on other: disabled"},
		{func() error { _, err := w.Enable(t.Context(), made.ID, by); return err }, "enable by alice on other: disabled"},
		{func() error {
			changed, err := w.Rotate(t.Context(), made.ID, keys.Rotation{Overlap: time.Hour}, by)
			secrets = append(secrets, changed.Secret)
			return err
		}, "rotate by alice on other: secrets"},
		{func() error { _, err := w.Unlock(t.Context(), made.ID, by); return err }, "unlock by alice on other:"},
		{func() error {
			_, err := w.Import(t.Context(), keys.ImportRequest{Fields: acme(), ID: "old", Secret: legacy}, by)
			return err
		}, "import by alice on acme: scopes sealed secrets tenant"},
		{func() error { _, err := w.Delete(t.Context(), "old", by); return err }, "delete by alice on acme: scopes sealed secrets tenant"},
		{func() error {
			w.backend.down.Store(true)
			defer w.backend.down.Store(false)
			if _, err := w.Create(t.Context(), keys.CreateRequest{Fields: acme()}, by); !errors.Is(err, store.ErrUnavailable) {
				return fmt.Errorf("create without a backend: %w", err)
			}
			return nil
		}, "failed create by alice on acme: scopes secrets tenant"},
		{func() error {
			if _, err := w.Create(t.Context(), keys.CreateRequest{Fields: store.Fields{Tenant: "acme"}}, by); err == nil {
				return errors.New("a key without scopes was made")
			}
			return nil
		}, "refused create by alice on acme:"},
		{func() error {
			if _, err := w.Disable(t.Context(), "nobody", by); !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("disable of nobody: %w", err)
			}
			return nil
		}, "refused disable by alice on :"},
	}
	for i, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.want, err)
		}
		if len(w.changes) != i+1 {
			t.Fatalf("%s: %d changes reported, want %d", step.want, len(w.changes), i+1)
		}
		c := w.changes[i]
		got := c.Action + " by " + c.Actor + " on " + c.Tenant + ":"
		if c.Refused() {
			got = "refused " + got
		} else if c.Err != nil {
			got = "failed " + got
		}
		for _, f := range c.Fields {
			got += " " + f.Field
		}
		if got != step.want || c.KeyID == "" && !c.Refused() {
			t.Errorf("reported %s, want %s", got, step.want)
		}
	}
	doc, err := json.Marshal(w.changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if strings.Contains(string(doc), secret) {
			t.Error("a change tells a secret")
		}
	}
	if strings.Contains(string(doc), `"sealed":`) || strings.Contains(string(doc), "fingerprint") {
		t.Error("a change tells sealed bytes")
	}
}

func TestNewSecretText(t *testing.T) {
	form := regexp.MustCompile(`^[a-z2-7]{52}$`)
	a, b := keys.NewSecretText(), keys.NewSecretText()
	if !form.MatchString(a) || !form.MatchString(b) || a == b {
		t.Errorf("made %d and %d characters", len(a), len(b))
	}
}
