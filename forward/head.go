package forward

import (
	"bytes"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
)

const maxHeaderLines = 256

// A head is the result of the strict check of an answer's head.
type head struct {
	status  int
	minor   int   // of HTTP/1
	length  int64 // announced; -1 for none
	chunked bool
	closes  bool   // Connection says close
	named   string // what Connection names, comma-separated; not its usual words
	lines   int    // header lines so far
	size    int    // bytes of a complete head
}

// The faults of a head, as texts of this package.
const (
	faultStart      = "the answer does not begin like HTTP/1.0 or HTTP/1.1"
	faultStatus     = "the answer's status is not a number of 100 to 599"
	faultSwitch     = "the issuer switched protocols, which the request did not ask for"
	faultLineEnd    = "a line of the answer's head does not end in CRLF"
	faultFolded     = "the answer's head has a folded line"
	faultName       = "a header line of the answer has no valid name"
	faultValue      = "a header line of the answer holds a byte that it cannot"
	faultHeadSize   = "the answer's head is larger than 64 KiB"
	faultHeadLines  = "the answer's head has more than 256 header lines"
	faultLength     = "the answer's Content-Length is not a number"
	faultLengths    = "the answer has two Content-Length lines"
	faultEncoding   = "the answer's Transfer-Encoding is not chunked alone"
	faultTwoFrames  = "the answer has both Content-Length and Transfer-Encoding"
	faultEncoding10 = "the answer has a Transfer-Encoding in HTTP/1.0"
	faultParser     = "the answer's head could not be read"
)

// startFault returns why the first bytes of an answer cannot become HTTP/1.0
// or HTTP/1.1, or "".
func startFault(b []byte) string {
	const start = "HTTP/1."
	if n := min(len(b), len(start)); string(b[:n]) != start[:n] {
		return faultStart
	}
	return ""
}

// line takes the next line, with its LF. It returns the fault of the line, or
// "", and whether the head is complete.
func (h *head) line(b []byte) (fault string, complete bool) {
	if len(b) < 2 || b[len(b)-2] != '\r' {
		return faultLineEnd, false
	}
	b = b[:len(b)-2]
	switch {
	case h.status == 0:
		return h.statusLine(b), false
	case len(b) == 0:
		return h.framing(), true
	case b[0] == ' ' || b[0] == '\t':
		return faultFolded, false
	}
	if h.lines++; h.lines > maxHeaderLines {
		return faultHeadLines, false
	}
	return h.field(b), false
}

// statusLine takes "HTTP/1.1 200 OK". The reason is checked and dropped.
func (h *head) statusLine(b []byte) string {
	const start = len("HTTP/1.1 200")
	if fault := startFault(b); fault != "" || len(b) < start || b[7] != '0' && b[7] != '1' || b[8] != ' ' {
		return faultStart
	}
	status, err := strconv.ParseUint(string(b[9:start]), 10, 16)
	if err != nil || status < 100 || status > 599 || len(b) > start && b[start] != ' ' {
		return faultStatus
	}
	if !isFieldValue(b[start:]) {
		return faultValue
	}
	if status == http.StatusSwitchingProtocols {
		return faultSwitch
	}
	*h = head{status: int(status), minor: int(b[7] - '0'), length: -1}
	return ""
}

// field takes one header line. Only those that frame the answer are read.
func (h *head) field(b []byte) string {
	name, value, found := bytes.Cut(b, []byte{':'})
	if !found || !isToken(name) {
		return faultName
	}
	if !isFieldValue(value) {
		return faultValue
	}
	switch len(name) {
	case len("Connection"):
		if equalFold(name, "connection") {
			h.connection(value)
		}
	case len("Content-Length"):
		if equalFold(name, "content-length") {
			return h.contentLength(bytes.Trim(value, " \t"))
		}
	case len("Transfer-Encoding"):
		if equalFold(name, "transfer-encoding") {
			if h.chunked || !equalFold(bytes.Trim(value, " \t"), "chunked") {
				return faultEncoding
			}
			h.chunked = true
		}
	}
	return ""
}

func (h *head) contentLength(value []byte) string {
	if h.length >= 0 {
		return faultLengths
	}
	n, err := strconv.ParseUint(string(value), 10, 63)
	if err != nil {
		return faultLength
	}
	h.length = int64(n)
	return ""
}

// connection notes the headers that the Connection line names, and whether one of
// its words is close.
func (h *head) connection(value []byte) {
	v := bytes.Trim(value, " \t")
	if equalFold(v, "keep-alive") {
		return
	}
	for word := range bytes.SplitSeq(v, []byte{','}) {
		h.closes = h.closes || equalFold(bytes.Trim(word, " \t"), "close")
	}
	h.named += string(v) + ","
}

// framing checks the head as a whole.
func (h *head) framing() string {
	switch {
	case h.chunked && h.length >= 0:
		return faultTwoFrames
	case h.chunked && h.minor == 0:
		return faultEncoding10
	default:
		return ""
	}
}

// bodiless reports whether an answer to the method has no body, even if its head
// announces one (RFC 9112, section 6.3).
func (h *head) bodiless(method string) bool {
	return method == http.MethodHead || h.status == http.StatusNoContent || h.status == http.StatusNotModified
}

// announcesBody reports whether the head announces a body that is not empty.
func (h *head) announcesBody() bool { return h.chunked || h.length > 0 }

// equalFold compares with a word of ASCII letters without regard to case. As long as
// the lengths are equal, no other letter equals one of ASCII.
func equalFold(b []byte, word string) bool {
	return len(b) == len(word) && strings.EqualFold(string(b), word)
}

// readHead reads lines until the head of the final answer is complete in the
// buffer, and drops the informational answers before it. Nothing of the final
// head is consumed. The errors are a fault, a failure to read, or both empty.
// begun, which may be nil, is called when the final head has a status line.
func readHead(in *input, begun func()) (h head, fault string, err error) {
	at, budget := 0, maxHeadBytes
	for {
		b, _ := in.Peek(in.Buffered())
		for {
			n := bytes.IndexByte(b[at:], '\n') + 1
			if n == 0 {
				break
			}
			if at+n > budget {
				return h, faultHeadSize, nil
			}
			var complete bool
			if fault, complete = h.line(b[at : at+n]); fault != "" {
				return h, fault, nil
			}
			at += n
			switch final := h.status >= 200; {
			case final && complete:
				h.size = at
				return h, "", nil
			case final && h.lines == 0 && begun != nil:
				begun()
			case complete:
				_, _ = in.Discard(at)
				budget -= at
				b, at, h = b[at:], 0, head{}
			}
		}
		if h.status == 0 {
			if fault = startFault(b[at:]); fault != "" {
				return h, fault, nil
			}
		}
		if len(b) >= budget {
			return h, faultHeadSize, nil
		}
		if err = in.more(len(b)); err != nil {
			return h, "", err
		}
	}
}

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
