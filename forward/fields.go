package forward

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

// fields returns the header lines of a checked head, given its bytes. It leaves
// out those that belong to one connection, the ones that Connection names among
// them (RFC 9110, section 7.6.1), and the Content-Length of an answer that cannot
// have a body (section 8.6). The length is written anew: some readers refuse
// leading zeros.
func (h *head) fields(b []byte) []Field {
	fields := make([]Field, 0, h.lines+1)
	_, text, _ := strings.Cut(string(b), "\r\n")
	for text != "\r\n" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, _ := strings.Cut(line, ":")
		name = textproto.CanonicalMIMEHeaderKey(name)
		if hopByHop(name) || h.named != "" && h.names(name) || name == "Content-Length" && h.status == http.StatusNoContent {
			continue
		}
		value = strings.Trim(value, " \t")
		if name == "Content-Length" {
			value = strconv.FormatInt(h.length, 10)
		}
		fields = append(fields, Field{Name: name, Value: value})
	}
	return withCacheControl(fields)
}

// hopByHop reports whether the header belongs to one connection, or tells how to
// make the next one to this server (RFC 7838): the client's next one is to another.
func hopByHop(name string) bool {
	switch name {
	case "Alt-Svc", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	default:
		return strings.HasPrefix(name, "Proxy-")
	}
}

// names reports whether Connection names the header.
func (h *head) names(name string) bool {
	for named := range strings.SplitSeq(h.named, ",") {
		if textproto.CanonicalMIMEHeaderKey(strings.Trim(named, " \t")) == name {
			return true
		}
	}
	return false
}

// withCacheControl adds what an answer with Pragma: no-cache alone means, as
// net/http does (RFC 9111, section 5.4).
func withCacheControl(fields []Field) []Field {
	pragma := ""
	for i := range fields {
		switch f := &fields[i]; f.Name {
		case "Cache-Control":
			return fields
		case "Pragma":
			if pragma == "" {
				pragma = f.Value
			}
		}
	}
	if pragma == "no-cache" {
		fields = append(fields, Field{Name: "Cache-Control", Value: pragma})
	}
	return fields
}
