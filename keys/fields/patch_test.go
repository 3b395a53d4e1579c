package fields

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
)

// The examples of RFC 7396, Appendix A.
func TestMergePatch(t *testing.T) {
	tests := []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":1.10}`, `{"b":100000000000000000001}`, `{"a":1.10,"b":100000000000000000001}`},
	}
	for _, test := range tests {
		got, err := mergePatch([]byte(test.target), []byte(test.patch))
		if err != nil || string(got) != test.want {
			t.Errorf("%s patched with %s: %s, %v; want %s", test.target, test.patch, got, err, test.want)
		}
	}
}

func FuzzPatch(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"tenant":"b"}`, `{"limits":{"total":null,"default":{"until":null}}}`, `{"scopes":null}`, `{"expires_at":"2030-01-01T00:00:00Z"}`,
		`{"id":"x"}`, `{"tenant":"a","tenant":"b"}`, `[]`, `null`, `{"limits":{"a":{"b":{"c":[1,{}]}}}}`, `{"allowed_ips":[]}`, `{"tenant":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	start := store.Fields{
		Tenant: "a", Scopes: []string{"*"}, ExpiresAt: time.Unix(2e9, 0).UTC(),
		Limits: map[string]json.RawMessage{"total": json.RawMessage(`"9/1s"`)},
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		out, err := Patch(&start, patch)
		var bad *InvalidError
		if err != nil {
			if !errors.As(err, &bad) && !errors.Is(err, ErrMalformed) {
				t.Fatalf("%q: an error of no kind: %v", patch, err)
			}
			return
		}
		again, err := Patch(&out, patch)
		if err != nil {
			t.Fatalf("%q: accepted once, then %v", patch, err)
		}
		first, _ := json.Marshal(out)
		second, _ := json.Marshal(again)
		if string(first) != string(second) {
			t.Fatalf("%q: applied twice it gives %s, then %s", patch, first, second)
		}
	})
}
