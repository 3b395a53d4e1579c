package raw

import (
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A field is a name and a value of a header section, as HTTP/2 and 3 send them.
type field struct{ name, value string }

// A message is a request as HTTP/2 and 3 send it.
type message struct {
	fields   []field
	data     []string // one frame each
	trailers []field
}

// newMessage returns a signed request.
func newMessage(s signed, key harness.Credentials) *message {
	m := &message{fields: []field{{":method", s.method}, {":scheme", "https"}, {":authority", "gw.example"}, {":path", s.target}}}
	for _, line := range harness.Sent(key.Request(s.method, s.target, s.body)).Headers {
		name, value, _ := strings.Cut(line, ": ")
		m.fields = append(m.fields, field{strings.ToLower(name), value})
	}
	if s.body != "" {
		m.data = []string{s.body}
	}
	return m
}

// change applies the changes of a case, separated by " ; ".
func (m *message) change(t *testing.T, changes string) {
	t.Helper()
	for change := range strings.SplitSeq(changes, " ; ") {
		verb, rest, _ := strings.Cut(unescape(t, change), " ")
		at := strings.Index(rest[min(1, len(rest)):], "=") + 1 // a name may begin with =
		named := field{rest[:max(at, 0)], rest[min(at+1, len(rest)):]}
		switch verb {
		case "":
		case "set":
			m.fields[m.index(t, named.name)] = named
		case "add":
			m.fields = append(m.fields, named)
		case "first":
			m.fields = slices.Insert(m.fields, 0, named)
		case "drop":
			i := m.index(t, rest)
			m.fields = slices.Delete(m.fields, i, i+1)
		case "rename":
			m.fields[m.index(t, named.name)].name = named.value
		case "nodata":
			m.data = nil
		case "data":
			m.data = append(m.data, rest)
		case "trailer":
			m.trailers = append(m.trailers, named)
		default:
			t.Fatalf("no change is named %q", verb)
		}
	}
}

func (m *message) index(t *testing.T, name string) int {
	t.Helper()
	i := slices.IndexFunc(m.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		t.Fatalf("the request has no %s", name)
	}
	return i
}
