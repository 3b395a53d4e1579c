package gate

import (
	"net/http"
	"testing"
)

// TestFieldsOfHTTP2 lists what is malformed in HTTP/2 and 3 alone.
func TestFieldsOfHTTP2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header http.Header
		bad    bool
	}{
		"nothing":             {http.Header{}, false},
		"the same host":       {http.Header{"Host": {"GW.example"}}, false},
		"another host":        {http.Header{"Host": {"evil.example"}}, true},
		"the same host twice": {http.Header{"Host": {"gw.example", "gw.example"}}, true},
		"an empty host":       {http.Header{"Host": {""}}, true},
		"a blank before":      {http.Header{"X-A": {"b", " b"}}, true},
		"a tab behind":        {http.Header{"X-A": {"b\t"}}, true},
		"a blank inside":      {http.Header{"X-A": {"b c"}}, false},
		"an empty value":      {http.Header{"X-A": {""}}, false},
	} {
		for major := 1; major <= 3; major++ {
			r := &http.Request{Host: "gw.example", ProtoMajor: major, Header: c.header}
			if refused := checkFields(r) != nil; refused != (c.bad && major > 1) {
				t.Errorf("%s over HTTP/%d: refused is %v", name, major, refused)
			}
		}
	}
}
