package file

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// keyFileBytes returns a key file with two keys and a named value, as it is at the end.
func keyFileBytes(t testing.TB) []byte {
	t.Helper()
	b := newBench(t, Options{})
	b.newKey()
	if _, err := b.PutMeta(t.Context(), "a <name>", []byte{0, 1, 255}); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return readFile(t, filepath.Join(b.dir, keyFileName))
}

// withData returns a key file of the data with the correct checksum.
func withData(data string) []byte {
	sum := sha256.Sum256([]byte(data))
	return []byte(`{"format":"card-gateway keys","version":1,"sha256":"` + hex.EncodeToString(sum[:]) + `","data":` + data + "}\n")
}

// TestDamagedKeyFile: any change of the key file is noticed, and the store does
// not start. One line says which file and what to do.
func TestDamagedKeyFile(t *testing.T) {
	whole := keyFileBytes(t)
	replace := func(old, by string) []byte { return bytes.Replace(whole, []byte(old), []byte(by), 1) }
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "does not begin as a key file"},
		{"something else", []byte("{}"), "does not begin as a key file"},
		{"cut in its first line", whole[:50], "first line"},
		{"cut in the middle", whole[:len(whole)/2], "cut off"},
		{"last byte missing", whole[:len(whole)-1], "cut off"},
		{"one letter changed", replace("acme", "acne"), "checksum"},
		{"formatted by hand", replace(",\n", ",\n\n"), "checksum"},
		{"written twice", append(bytes.Clone(whole), whole...), "checksum"},
		{"newer", replace(`"version":1`, `"version":3`), "has format 3, this version reads formats 1 and 2"},
		{"version spelled otherwise", replace(`"version":1`, `"version":01`), "first line"},
		{"unknown field", withData(`{"meta":{},"keys":[{"id":"a","revision":"b","colour":"red"}]}`), `unknown field`},
		{"no id", withData(`{"meta":{},"keys":[{"revision":"b"}]}`), "lacks its id"},
		{"null", withData(`{"meta":{},"keys":[null]}`), "lacks its id"},
		{"twice the same key", withData(`{"meta":{},"keys":[{"id":"a","revision":"b"},{"id":"a","revision":"c"}]}`), "twice"},
		{"more data", withData(`{"meta":{},"keys":[]}{}`), "more follows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, keyFileName)
			writeFile(t, path, tt.file)
			_, err := Open(dir, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v, want one line with %q and %q", err, path, tt.want)
			}
			if got := readFile(t, path); !bytes.Equal(got, tt.file) {
				t.Fatal("the damaged file was changed")
			}
		})
	}
}

// TestKeyFileDamagedAfterOpen: Start reads again what Open has read.
func TestKeyFileDamagedAfterOpen(t *testing.T) {
	whole := keyFileBytes(t)
	dir := t.TempDir()
	path := filepath.Join(dir, keyFileName)
	writeFile(t, path, whole)
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, whole[:100])
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Fatalf("Start: %v, want that the file is damaged", err)
	}
	writeFile(t, path, whole)
	if err := s.Start(t.Context()); err != nil {
		t.Fatalf("Start once it is whole again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// FuzzKeyFile: every accepted file has the bytes that the store would write.
func FuzzKeyFile(f *testing.F) {
	f.Add(keyFileBytes(f))
	f.Add(withData(`{"meta":{},"keys":[]}`))
	f.Add(withData(`{"meta":{"a":"AA=="},"keys":[{"id":"a","revision":"b","lock":{"at":"2026-01-01T00:00:00Z","failures":3}}]}`))
	f.Add(withData(`{"meta":{"a":"AA==","seal:a":"AQ==","seal:gone":"Ag=="},"keys":[{"id":"a","revision":"b"}]}`))
	f.Add([]byte(keyFileStart))
	first, sum := appendObject(nil, keyFileGrowing, "", func(b []byte) []byte { return append(b, `{"meta":{`+"\n"+`},"keys":[`+dataEnd...) })
	changed, sum := appendObject(bytes.Clone(first), keyFileGrowing, sum, func(b []byte) []byte {
		return append(b, `{"meta":{"seal:a":"AQ=="},"keys":[{"id":"a","revision":"b"}]}`...)
	})
	changed, _ = appendObject(changed, keyFileGrowing, sum, func(b []byte) []byte { return append(b, otherChange(keyFile{Deleted: "b"})...) })
	f.Add(first)
	f.Add(changed)
	f.Fuzz(func(t *testing.T, b []byte) {
		tryKeyFile(t, b)
		tryKeyFile(t, withData(string(b)))
	})
}

func tryKeyFile(t *testing.T, b []byte) {
	t.Helper()
	parsed, err := parseKeyFile("keys.json", b)
	if err != nil {
		if strings.Contains(err.Error(), "\n") {
			t.Fatalf("more than one line: %v", err)
		}
		return
	}
	byID := func(a, b *store.Record) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(parsed.Keys, byID)
	var kept []*storedRecord
	for _, r := range parsed.Keys {
		s, err := newStored(r)
		if err != nil {
			return // such as a time that JSON cannot hold
		}
		kept = append(kept, s)
	}
	st := newState(Options{}.withDefaults(), "")
	st.meta = parsed.Meta
	for _, s := range kept {
		st.makeKey(s.record.ID).stored.Store(s)
		st.ids = append(st.ids, s.record.ID)
	}
	written, _ := appendObject(nil, keyFileWhole, "", st.appendAll)
	again, err := parseKeyFile("keys.json", written)
	if err != nil || len(again.Keys) != len(parsed.Keys) || !sameMeta(again.Meta, parsed.Meta) {
		t.Fatalf("%v: read back\n%+v\nwant\n%+v", err, again, parsed)
	}
	slices.SortFunc(again.Keys, byID)
	for i := range again.Keys {
		s, err := newStored(again.Keys[i])
		if err != nil || !bytes.Equal(s.line, kept[i].line) || !bytes.Equal(s.seal, kept[i].seal) {
			t.Fatalf("%v: read back\n%+v\nwant\n%+v", err, s, kept[i])
		}
	}
}

func sameMeta(a, b map[string][]byte) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}

// TestKeyFileCannotBeWritten: a change that does not reach the disk did not
// happen.
func TestKeyFileCannotBeWritten(t *testing.T) {
	b := newBench(t, Options{noKeeper: true})
	blocked := filepath.Join(b.dir, keyFileName+".new")
	if err := os.Mkdir(blocked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(blocked, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.writeAnew()
	next := b.record.Clone()
	next.Revision = "next"
	if _, err := b.Put(t.Context(), next, store.PutOptions{Expect: b.record.Revision}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Put: %v, want ErrUnavailable", err)
	}
	if _, err := b.Delete(t.Context(), b.record.ID, ""); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Delete: %v, want ErrUnavailable", err)
	}
	if _, err := b.PutMeta(t.Context(), "name", nil); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("PutMeta: %v, want ErrUnavailable", err)
	}
	if _, err := b.Meta(t.Context(), "name"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("Meta: %v, want ErrNotFound", err)
	}
	b.expect(b.claim(), auth.Accepted)

	// A lock is kept in the journal meanwhile.
	b.fail(1)
	c := b.claim()
	c.LockAfter = 1
	b.expect(c, auth.KeyLocked)
	b.keep()
	if told := b.problems.text(); !strings.Contains(told, "a lock is in the journal only") {
		t.Fatalf("told %q", told)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	b.crash(nil)
	if r, err := b.Get(t.Context(), b.record.ID); err != nil || r.Revision != c.NextRevision || r.Lock == nil {
		t.Fatalf("%+v, %v: want the lock", r, err)
	}
}
