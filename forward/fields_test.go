package forward

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// headerOf returns the fields of an answer as net/http has them.
func headerOf(a *Answer) http.Header {
	h := make(http.Header)
	for _, f := range a.Fields {
		h[f.Name] = append(h[f.Name], f.Value)
	}
	return h
}

// fieldsOf returns the fields of a head of these lines.
func fieldsOf(t *testing.T, lines ...string) []Field {
	t.Helper()
	text := strings.Join(lines, "\r\n") + "\r\n\r\n"
	in := newInput(strings.NewReader(text))
	defer in.free()
	h, fault, err := readHead(in, nil)
	if fault != "" || err != nil || h.size != len(text) {
		t.Fatalf("%q: %q, %v, %d bytes of %d", text, fault, err, h.size, len(text))
	}
	b, _ := in.Peek(h.size)
	return h.fields(b)
}

// Headers of one connection are not passed on, and all others are.
func TestFieldsOfOneConnection(t *testing.T) {
	t.Parallel()
	lines := []string{"HTTP/1.1 200 OK", "connection: x-NAMED ,,\tX-Other,,absent"}
	for _, name := range []string{
		"Keep-Alive", "Proxy-Connection", "proxy-authenticate", "Proxy-Anything", "TE", "Trailer",
		"Upgrade", "alt-svc", "X-Named", "X-Other", "kept", "Content-Type", "Set-Cookie", "SET-cookie", "Proxied",
	} {
		lines = append(lines, name+": 1")
	}
	got := fieldsOf(t, lines...)
	want := []Field{{"Kept", "1"}, {"Content-Type", "1"}, {"Set-Cookie", "1"}, {"Set-Cookie", "1"}, {"Proxied", "1"}}
	if !slices.Equal(got, want) {
		t.Errorf("%q are left, want %q", got, want)
	}
}

// Pragma: no-cache alone means Cache-Control: no-cache, as net/http reads it.
func TestPragma(t *testing.T) {
	t.Parallel()
	for want, lines := range map[string][]string{
		"no-cache": {"Pragma: no-cache", "Pragma: x"},
		"":         {"Pragma: x", "Pragma: no-cache"},
		"private":  {"Pragma: no-cache", "Cache-Control: private"},
	} {
		got := headerOf(&Answer{Fields: fieldsOf(t, append([]string{"HTTP/1.1 200 OK"}, lines...)...)})
		if got.Get("Cache-Control") != want || len(got["Cache-Control"]) > 1 {
			t.Errorf("%q: Cache-Control is %q, want %q", lines, got["Cache-Control"], want)
		}
	}
}

// However the issuer writes the length, the client gets the number that was read,
// as every reader understands it.
func TestLengthIsWrittenAnew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := strconv.FormatInt(rapid.Int64Min(0).Draw(r, "length"), 10)
		zeros := strings.Repeat("0", rapid.SampledFrom([]int{0, 1, 2, 5000}).Draw(r, "zeros"))
		blank := rapid.StringMatching(`[ \t]{0,3}`).Draw(r, "blank")
		got := fieldsOf(t, "HTTP/1.1 200 OK", "A: 001", "content-LENGTH:"+blank+zeros+want+blank)
		if !slices.Equal(got, []Field{{"A", "001"}, {"Content-Length", want}}) {
			r.Fatalf("with %d zeros the fields are %.200q, want the length %s", len(zeros), got, want)
		}
	})
}
