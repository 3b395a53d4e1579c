package auth_test

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestTargetParts(t *testing.T) {
	tests := []struct{ raw, rawPath, rawQuery, path string }{
		{"/", "/", "", "/"},
		{"/api/v1/cards", "/api/v1/cards", "", "/api/v1/cards"},
		{"/api/v1/cards?", "/api/v1/cards", "", "/api/v1/cards"},
		{"/api/v1/cards?a?b=%20", "/api/v1/cards", "a?b=%20", "/api/v1/cards"},
		{"/api/v1/%6frders/?a", "/api/v1/%6frders/", "a", "/api/v1/orders/"},
		{"/api/v1/a%20b%2525+c", "/api/v1/a%20b%2525+c", "", "/api/v1/a b%25+c"},
		{"/api/v1/caf%C3%a9", "/api/v1/caf%C3%a9", "", "/api/v1/café"},
	}
	for _, test := range tests {
		got, refusal := auth.ParseTarget(test.raw)
		want := auth.Target{Raw: test.raw, RawPath: test.rawPath, RawQuery: test.rawQuery, Path: test.path}
		if refusal != nil || got != want {
			t.Errorf("%s: got %+v, %v", test.raw, got, refusal)
		}
	}
}

func TestBadTargetSaysWhatIsWrong(t *testing.T) {
	tests := []struct{ raw, want string }{
		{strings.Repeat("/a", 5000), "longer than 8 KiB"},
		{"http://canary/", "without scheme and host"},
		{"/canary#x", "'#'"},
		{"/canary%zz", "two hexadecimal digits"},
		{"/a?canary%", "two hexadecimal digits"},
		{"/canary|", "percent-encode it"},
		{"/canary é", "percent-encode it"},
		{"/canary%2f", "encoded slash or backslash"},
		{"/canary%00", "encoded control byte"},
		{"/canary/../x", "'..' segment"},
		{"/canary/%252e%252e/x", "'..' segment"},
		{"/canary%c0%af", "overlong UTF-8"},
	}
	for _, test := range tests {
		_, refusal := auth.ParseTarget(test.raw)
		if refusal == nil || refusal.Reason != auth.BadTarget {
			t.Errorf("%q: %v", test.raw, refusal)
			continue
		}
		if !strings.Contains(refusal.Text(), test.want) || strings.Contains(refusal.Error()+refusal.Text(), "canary") {
			t.Errorf("%q: %s", test.raw, refusal.Text())
		}
	}
}

// FuzzParseTarget demands that other parsers read every accepted target as we
// do, and write it back unchanged.
func FuzzParseTarget(f *testing.F) {
	for _, raw := range []string{
		"/", "/api/v1/cards/c1?a=1", "/api/v1/a;x/b", "/api/v1/..;x", "/%2e%2E/", "/%252e%252e/x", "/a%25%32%66", "/%c0%af",
		"//x", "/a//", "*", "http://h/x", "/a#b", "/a?b#c", "/a%", "/a{b}", "/a?x={b}", "/caf\xe9", "/a;/", "/;a", "/a/", "/%25252525252f",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, refusal := auth.ParseTarget(raw)
		if refusal != nil {
			if refusal.Reason != auth.BadTarget || refusal.Message == "" {
				t.Fatalf("refused with %v", refusal)
			}
			return
		}
		joined := got.RawPath
		if strings.Contains(raw, "?") {
			joined += "?" + got.RawQuery
		}
		if got.Raw != raw || joined != raw {
			t.Fatalf("%q is split into %+v", raw, got)
		}
		u, err := url.ParseRequestURI(raw)
		if err != nil || u.RequestURI() != raw || u.Path != got.Path || u.RawQuery != got.RawQuery || u.Host != "" {
			t.Fatalf("%q: net/url reads %+v, %v", raw, u, err)
		}
		for decoded, i := got.Path, 0; i < 3; i++ {
			checkUnambiguous(t, raw, decoded)
			again, err := url.PathUnescape(decoded)
			if err != nil {
				break
			}
			decoded = again
		}
	})
}

// checkUnambiguous demands that no cleaning changes the path, and that none of
// its segments vanishes with its parameters.
func checkUnambiguous(t *testing.T, raw, decoded string) {
	t.Helper()
	cleaned := path.Clean(decoded)
	if strings.HasSuffix(decoded, "/") && decoded != "/" {
		cleaned += "/"
	}
	if cleaned != decoded || strings.ContainsAny(decoded, "\\\x00\r\n") {
		t.Fatalf("%q is read as %q, cleaned to %q", raw, decoded, cleaned)
	}
	if strings.Count(decoded, "/") != strings.Count(raw[:len(raw)-len(afterQuestionMark(raw))], "/") {
		t.Fatalf("%q is read as %q, which has other segments", raw, decoded)
	}
	segments := strings.Split(strings.TrimSuffix(decoded[1:], "/"), "/")
	for _, segment := range segments {
		name, _, _ := strings.Cut(segment, ";")
		if decoded != "/" && (name == "" || name == "." || name == "..") {
			t.Fatalf("%q is read as %q", raw, decoded)
		}
	}
}

func afterQuestionMark(raw string) string {
	_, query, _ := strings.Cut(raw, "?")
	return query
}

func TestCheckMethodIsExact(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if refusal := auth.CheckMethod(method); refusal != nil {
			t.Errorf("%s: %v", method, refusal)
		}
	}
	for _, method := range []string{"", "get", "Get", "GET ", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "QUERY"} {
		if refusal := auth.CheckMethod(method); refusal == nil || refusal.Reason != auth.MethodNotAllowed {
			t.Errorf("%q: %v", method, refusal)
		}
	}
}
