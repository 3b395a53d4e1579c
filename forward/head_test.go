package forward

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// goodHead draws a head that follows RFC 9112, as lines without their ends.
func goodHead(t *rapid.T) []string {
	status := rapid.SampledFrom([]int{200, 201, 204, 304, 400, 404, 500, 502, 599}).Draw(t, "status")
	reason := rapid.StringMatching(`( [ -~\t]{0,20})?`).Draw(t, "reason")
	lines := []string{"HTTP/1.1 " + strconv.Itoa(status) + reason}
	name := rapid.StringMatching("[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}")
	for range rapid.IntRange(0, 12).Draw(t, "lines") {
		n := name.Draw(t, "name")
		if ownField(n) {
			continue
		}
		lines = append(lines, n+":"+rapid.StringMatching(`[ -~\t\x{e9}]{0,40}`).Draw(t, "value"))
	}
	switch rapid.IntRange(0, 2).Draw(t, "framing") {
	case 0:
		lines = append(lines, "content-LENGTH: "+strconv.Itoa(rapid.IntRange(0, 1<<40).Draw(t, "length")))
	case 1:
		lines = append(lines, "transfer-Encoding: Chunked")
	}
	return lines
}

// headOf reads a head that arrives in pieces of the given size.
func headOf(lines []string, size int) (head, string, error) {
	text := strings.Join(lines, "\r\n") + "\r\n\r\n"
	in := newInput(&pieces{strings.NewReader(text), size})
	defer in.free()
	return readHead(in, nil)
}

type pieces struct {
	io.Reader
	size int
}

func (r *pieces) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), r.size)]) }

// spoil makes one line, or the list of them, wrong in a way that no answer may
// be. The place is chosen among the header lines.
var spoil = map[string]func(lines []string, at int) []string{
	"folded":        func(l []string, at int) []string { return slices.Insert(l, at, " x: y") },
	"folded by tab": func(l []string, at int) []string { return slices.Insert(l, at, "\tx") },
	"blank line":    func(l []string, at int) []string { return slices.Insert(l, at, " ") },
	"no colon":      func(l []string, at int) []string { return slices.Insert(l, at, "x") },
	"no name":       func(l []string, at int) []string { return slices.Insert(l, at, ": x") },
	"blank in name": func(l []string, at int) []string { return slices.Insert(l, at, "x : y") },
	"other bytes":   func(l []string, at int) []string { return slices.Insert(l, at, "x\xe9: y") },
	"control":       func(l []string, at int) []string { return slices.Insert(l, at, "x: \x7f") },
	"NUL":           func(l []string, at int) []string { return slices.Insert(l, at, "x: \x00") },
	"bare CR":       func(l []string, at int) []string { return slices.Insert(l, at, "x: a\rb") },
	"bare LF":       func(l []string, at int) []string { return slices.Insert(l, at, "x: a\ny: b") },
	"two lengths": func(l []string, at int) []string {
		return slices.Insert(l, at, "Content-Length: 7", "content-length: 7")
	},
	"both framings": func(l []string, at int) []string {
		return slices.Insert(l, at, "Content-Length: 7", "Transfer-Encoding: chunked")
	},
	"signed length":  func(l []string, at int) []string { return slices.Insert(l, at, "Content-Length: +7") },
	"long length":    func(l []string, at int) []string { return slices.Insert(l, at, "Content-Length: 9999999999999999999") },
	"encoding":       func(l []string, at int) []string { return slices.Insert(l, at, "Transfer-Encoding: chunked, gzip") },
	"empty encoding": func(l []string, at int) []string { return slices.Insert(l, at, "Transfer-Encoding:") },
	"too many": func(l []string, at int) []string {
		return slices.Insert(l, at, slices.Repeat([]string{"x: y"}, 257)...)
	},
	"too large":   func(l []string, at int) []string { return slices.Insert(l, at, "x: "+strings.Repeat("y", 64<<10)) },
	"status line": func(l []string, _ int) []string { return slices.Insert(l, 1, l[0]) },
	"1.0 chunked": func(l []string, at int) []string {
		return append(slices.Insert(l, at, "Transfer-Encoding: chunked"), "")[:len(l)+1]
	},
}

// TestStrictHead draws good heads, which must be accepted however they arrive,
// and spoils each in each way.
func TestStrictHead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := goodHead(t)
		h, fault, err := headOf(lines, rapid.SampledFrom([]int{1, 7, 4096}).Draw(t, "pieces"))
		if fault != "" || err != nil {
			t.Fatalf("%q is refused: %q, %v", lines, fault, err)
		}
		if want, _ := strconv.Atoi(lines[0][9:12]); h.status != want || h.minor != 1 {
			t.Fatalf("%q is read as %+v", lines, h)
		}
		at := rapid.IntRange(1, len(lines)).Draw(t, "place")
		for name, wrong := range spoil {
			bad := wrong(slices.Clone(lines), at)
			if name == "1.0 chunked" {
				bad[0] = "HTTP/1.0" + bad[0][8:]
			}
			if _, fault, _ := headOf(bad, 4096); fault == "" {
				t.Fatalf("with %s, %q is accepted", name, bad)
			}
		}
	})
}

// TestHeadBounds tries both sides of each bound.
func TestHeadBounds(t *testing.T) {
	t.Parallel()
	padded := func(size int) []string {
		lines := []string{"HTTP/1.1 200 OK", "x: "}
		n := len(strings.Join(lines, "\r\n")) + 4
		lines[1] += strings.Repeat("y", size-n)
		return lines
	}
	counted := func(n int) []string {
		return append([]string{"HTTP/1.1 200 OK"}, slices.Repeat([]string{"x: y"}, n)...)
	}
	for name, c := range map[string]struct {
		lines []string
		fault string
	}{
		"64 KiB":          {padded(maxHeadBytes), ""},
		"64 KiB and 1":    {padded(maxHeadBytes + 1), faultHeadSize},
		"8 KiB":           {padded(smallInput), ""},
		"8 KiB and 1":     {padded(smallInput + 1), ""},
		"256 lines":       {counted(256), ""},
		"257 lines":       {counted(257), faultHeadLines},
		"1xx of 60 KiB":   {append([]string{"HTTP/1.1 100 C", "x: " + strings.Repeat("y", 60<<10), ""}, padded(3<<10)...), ""},
		"1xx, too large":  {append([]string{"HTTP/1.1 100 C", "x: " + strings.Repeat("y", 62<<10), ""}, padded(2<<10)...), faultHeadSize},
		"1xx and too big": {append([]string{"HTTP/1.1 100 C", "x: " + strings.Repeat("y", 60<<10), ""}, padded(5<<10)...), faultHeadSize},
	} {
		for _, size := range []int{1, 1000, 7 << 10, 64 << 10} {
			if _, fault, err := headOf(c.lines, size); fault != c.fault || err != nil {
				t.Errorf("%s: fault %q, %v; want %q", name, fault, err, c.fault)
			}
		}
	}
}

// TestRequestHead draws fields from all bytes. A request is either refused, or
// a server reads exactly the wanted request from it.
func TestRequestHead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			if rapid.IntRange(0, 9).Draw(t, label+" wild") == 0 {
				return string(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, label))
			}
			return rapid.StringMatching(`[A-Za-z-]{1,12}`).Draw(t, label)
		}
		r := &Request{
			Method: rapid.SampledFrom([]string{"GET", "POST", "DELETE", "get", "A B", "A\n"}).Draw(t, "method"),
			Target: "/" + text("target"), Host: text("host"),
			Body: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "body"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			r.Fields = append(r.Fields, Field{text("name"), text("value")})
		}
		for _, own := range []string{"host", "Content-length", "TRANSFER-ENCODING", "Connection", "te", "Expect", "Upgrade", "trailer", "Keep-Alive", "proxy-connection"} {
			if rapid.IntRange(0, 5).Draw(t, own) == 0 {
				r.Fields = append(r.Fields, Field{own, "chunked"})
			}
		}
		if r.fault() != "" {
			return
		}
		wire := append(r.appendHead(nil, "issuer"), r.Body...)
		checkWire(t, r, wire)
	})
}

// checkWire reads the bytes in the simplest way: lines, and a length.
func checkWire(t *rapid.T, r *Request, wire []byte) {
	head, body, found := bytes.Cut(wire, []byte("\r\n\r\n"))
	if !found || !bytes.Equal(body, r.Body) || bytes.Count(head, []byte("\n")) != bytes.Count(head, []byte("\r\n")) {
		t.Fatalf("the request is %q", wire)
	}
	host := r.Host
	if host == "" {
		host = "issuer"
	}
	want := []string{r.Method + " " + r.Target + " HTTP/1.1", "Host: " + host}
	for _, f := range r.Fields {
		if !ownField(f.Name) {
			want = append(want, f.Name+": "+f.Value)
		}
	}
	if len(r.Body) > 0 || r.Method == "POST" {
		want = append(want, "Content-Length: "+strconv.Itoa(len(r.Body)))
	}
	if got := strings.Split(string(head), "\r\n"); !slices.Equal(got, want) {
		t.Fatalf("the head has the lines %q, want %q", got, want)
	}
}
