package keyring

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// unsealedFields are the fields of a record that a seal does not cover; see
// sealedFields for the reasons.
var unsealedFields = []string{"Revision", "UpdatedAt", "Lock", "Seal", "Failures", "LastUsed"}

// TestEveryFieldIsSealed: each field of a record and of what is in it is covered,
// unless it is named above. A new field must be added to sealedFields, and is then
// changed here in a way that its seal must show.
func TestEveryFieldIsSealed(t *testing.T) {
	ring, err := Parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range fieldPaths(reflect.TypeFor[store.Record](), nil) {
		r := fullRecord()
		r.Seal = ring.SealRecord(r, 7)
		if field, err := ring.CheckRecord(r); err != nil {
			t.Fatalf("untouched: %s: %v", field, err)
		}
		value := reflect.ValueOf(r).Elem()
		for _, index := range path.index {
			value = reflect.Indirect(value)
			if value.Kind() == reflect.Slice {
				value = value.Index(0)
			}
			value = value.Field(index)
		}
		alter(t, path.name, value)
		_, err := ring.CheckRecord(r)
		if outside := slices.Contains(unsealedFields, path.name); path.name != "Seal" && (err == nil) != outside {
			t.Errorf("%s is changed: %v; a seal must cover it: %t", path.name, err, !outside)
		}
	}
}

// A fieldPath is a field of a record, or of a struct in it.
type fieldPath struct {
	name  string
	index []int
}

func fieldPaths(of reflect.Type, above []int) (paths []fieldPath) {
	for i := range of.NumField() {
		field := of.Field(i)
		index := append(slices.Clone(above), i)
		below := field.Type
		if below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		if below.Kind() == reflect.Struct && below != reflect.TypeFor[time.Time]() {
			paths = append(paths, fieldPaths(below, index)...)
			continue
		}
		paths = append(paths, fieldPath{field.Name, index})
	}
	return paths
}

// alter changes a value to another of its type.
func alter(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *string:
		*value += "x"
	case *bool:
		*value = !*value
	case *int:
		*value++
	case *[]byte:
		*value = append(bytes.Clone(*value), 0)
	case *[]string:
		*value = append(slices.Clone(*value), "x")
	case *time.Time:
		*value = value.Add(time.Nanosecond)
	case *map[string]json.RawMessage:
		(*value)["total"] = json.RawMessage(`"9/1s"`)
	case **auth.Lock:
		*value = &auth.Lock{Failures: 1}
	case *map[int]time.Time:
		*value = map[int]time.Time{1: writtenOnce}
	default:
		t.Fatalf("%s: add its type %T here", name, value)
	}
}

var writtenOnce = time.Date(2026, 11, 28, 12, 0, 0, 1000, time.UTC)

func fullRecord() *store.Record {
	return &store.Record{
		ID: "a", Revision: "b",
		Fields: store.Fields{
			Tenant: "acme", Description: "<back> office", Scopes: []string{"cards:read"}, AllowedIPs: []string{"192.0.2.0/24"},
			ExpiresAt: writtenOnce.AddDate(1, 0, 0), Disabled: true, CustomerVariant: "B", DebugUntil: writtenOnce.Add(time.Hour),
			Limits: map[string]json.RawMessage{"default": json.RawMessage(`{"limit": "5/1s", "until": "2030-01-01T00:00:00Z"}`), "a<b": json.RawMessage(`"1/1s"`)},
		},
		StampedAfter: writtenOnce, CreatedAt: writtenOnce.In(time.FixedZone("", 3600)), UpdatedAt: writtenOnce,
		Secrets: []store.SealedSecret{{Version: 2, Sealed: []byte("sealed"), Fingerprint: []byte("print"), CreatedAt: writtenOnce}},
		Lock:    &auth.Lock{},
	}
}

// TestSealedFormIsStable: the sealed fields read the same after a backend has
// stored the record as JSON.
func TestSealedFormIsStable(t *testing.T) {
	r := fullRecord()
	doc, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again store.Record
	if err := json.Unmarshal(doc, &again); err != nil {
		t.Fatal(err)
	}
	if before, after := appendSealed(nil, r), appendSealed(nil, &again); !bytes.Equal(before, after) {
		t.Errorf("%q is stored as\n%q", before, after)
	}
}

// TestSealedFormIsFixed: records that were sealed by an earlier build must verify.
func TestSealedFormIsFixed(t *testing.T) {
	const want = "id tenant description scopes allowed_ips expires_at disabled limits customer_variant debug_until imported stamped_after created_at secrets"
	if got := strings.Join(SealedFields(), " "); got != want {
		t.Errorf("the sealed fields are %s; another list is another version of the format", got)
	}
}
