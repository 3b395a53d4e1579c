package translating

import (
	"net/http"
	"testing"
)

// A body is JSON in UTF-8 only if no reader of its type could take it for anything
// else.
func TestTypeFault(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"application/json":                        "",
		"application/vnd.acme+json; version=1":    "",
		"Application/JSON; Charset=UTF-8":         "",
		`application/json; charset="utf8"`:        "",
		"application/json; charset*=utf-8''utf-8": "",
		"text/plain":                   "content_type",
		"application/json, text/plain": "content_type",
		"application/json; charset=utf-8; charset=utf-16":       "content_type",
		"application/json; charset=utf-16":                      "charset",
		"application/json; charset=":                            "content_type",
		"application/json; charset*0=utf-16":                    "charset",
		"application/json; charset*=utf-8''utf-16":              "charset",
		"application/json; charset*=iso-8859-1''utf-16":         "charset", // net/http drops what it cannot decode
		"application/json; charset*=''utf-16":                   "charset",
		"application/json; CHARSET*0*=latin1''utf; charset*1=x": "charset",
	} {
		got := ""
		if fault := TypeFault(&http.Request{ContentLength: 1, Header: http.Header{"Content-Type": {value}}}); fault != nil {
			got = fault[0].Finding
		}
		if got != want {
			t.Errorf("%s: the fault is %q, want %q", value, got, want)
		}
	}
}
