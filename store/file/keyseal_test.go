package file

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/store"
)

// TestSealIsBesideTheRecord: the version before refuses a key file with a field of
// a record that it does not know, so the seal is a named value, which it keeps.
func TestSealIsBesideTheRecord(t *testing.T) {
	b := newBench(t, Options{})
	r := b.newKey()
	sealed := r.Clone()
	sealed.Revision, sealed.Seal = "sealed", []byte("seal")
	if _, err := b.Put(t.Context(), sealed, store.PutOptions{Expect: r.Revision}); err != nil {
		t.Fatal(err)
	}
	var content struct {
		Data struct {
			Meta map[string][]byte
			Keys []map[string]any
		}
	}
	if got, err := b.Get(t.Context(), r.ID); err != nil || string(got.Seal) != "seal" {
		t.Errorf("read %+v, %v", got, err)
	}
	if v, err := b.Meta(t.Context(), "seal:"+r.ID); err == nil {
		t.Errorf("the seal is a named value of callers, too: %q", v)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	text := readFile(t, filepath.Join(b.dir, keyFileName))
	if err := json.Unmarshal(text, &content); err != nil {
		t.Fatal(err)
	}
	if got := content.Data.Meta["seal:"+r.ID]; string(got) != "seal" {
		t.Errorf("the seal is stored as %q in\n%s", got, text)
	}
	known := strings.Fields("id revision tenant description scopes allowed_ips expires_at disabled limits customer_variant debug_until imported stamped_after created_at updated_at secrets lock")
	for name := range content.Data.Keys[0] {
		if !slices.Contains(known, name) {
			t.Errorf("the version before refuses the field %s", name)
		}
	}
}

// TestSealOfADeletedKeyIsDropped: the version before keeps it.
func TestSealOfADeletedKeyIsDropped(t *testing.T) {
	f, err := parseKeyFile("keys.json", withData(`{"meta":{"a":"AA==","seal:gone":"AQ=="},"keys":[]}`))
	if err != nil || len(f.Meta) != 1 {
		t.Errorf("%v, %v", f.Meta, err)
	}
}

// TestSealIsRemoved: a record that is replaced by one without a seal has none, also
// after a crash.
func TestSealIsRemoved(t *testing.T) {
	b := newBench(t, Options{})
	for _, seal := range []string{"seal", ""} {
		next := b.record.Clone()
		next.Revision, next.Seal = "with "+seal, nil
		if seal != "" {
			next.Seal = []byte(seal)
		}
		if _, err := b.Put(t.Context(), next, store.PutOptions{Expect: b.record.Revision}); err != nil {
			t.Fatal(err)
		}
		b.record = next
		b.crash(nil)
		if got, err := b.Get(t.Context(), next.ID); err != nil || string(got.Seal) != seal || got.Revision != next.Revision {
			t.Errorf("read %+v, %v; want the seal %q", got, err, seal)
		}
		b.newKey() // so that the next change is appended
	}
}

// TestSealInTheRecordIsDamage: no gateway writes it there.
func TestSealInTheRecordIsDamage(t *testing.T) {
	_, err := parseKeyFile("keys.json", withData(`{"meta":{},"keys":[{"id":"a","revision":"b","seal":"AQ=="}]}`))
	if err == nil || !strings.Contains(err.Error(), `unknown field "seal"`) {
		t.Errorf("%v", err)
	}
}
