package caddymodule

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// failing is a body that gives some bytes and then an error.
type failing struct {
	io.Reader
	err error
}

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

func TestBodyReader(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1024)
	whole := func() io.Reader { return strings.NewReader(content) }
	broken := func(err error) func() io.Reader {
		return func() io.Reader { return failing{strings.NewReader("ab"), err} }
	}
	for _, c := range []struct {
		name   string
		body   func() io.Reader
		length int64
		max    int64
		reason auth.Reason
	}{
		{"known length", whole, 16384, 16384, auth.Accepted},
		{"one byte too many", whole, 16384, 16383, auth.BodyTooLarge},
		{"chunked", whole, -1, 16384, auth.Accepted},
		{"chunked, one too many", whole, -1, 16383, auth.BodyTooLarge},
		{"deadline", broken(os.ErrDeadlineExceeded), 16384, 16384, auth.BodyTimeout},
		{"cut short", broken(io.ErrUnexpectedEOF), 16384, 16384, auth.MalformedRequest},
		{"cut short, as over HTTP/3", broken(io.EOF), 16384, 16384, auth.MalformedRequest},
		{"a byte short, as over HTTP/3", whole, 16385, 16385, auth.MalformedRequest},
		{"bad framing", broken(errors.New("malformed chunked encoding")), -1, 16384, auth.MalformedRequest},
	} {
		for how, keep := range map[string]bool{"kept": true, "discarded": false} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				b := &budget{limit: 1 << 20}
				reader := bodyReader{budget: b, max: c.max, timeout: time.Second, keep: keep}
				r := httptest.NewRequest("POST", "/", c.body())
				r.ContentLength = c.length
				got, refusal := reader.read(httptest.NewRecorder(), r)
				if reason := reasonOf(refusal); reason != c.reason {
					t.Fatalf("got %v, want %v", reason, c.reason)
				}
				if refusal == nil && (got.sum != sha256.Sum256([]byte(content)) || keep != (string(got.bytes) == content)) {
					t.Error("other bytes")
				}
				got.release()
				if left := b.used.Load(); left != 0 {
					t.Errorf("%d bytes of the budget are lost", left)
				}
			})
		}
	}
}

func reasonOf(refusal *auth.Refusal) auth.Reason {
	if refusal == nil {
		return auth.Accepted
	}
	return refusal.Reason
}

func TestBodyBudget(t *testing.T) {
	b := &budget{limit: 1500}
	reader := bodyReader{budget: b, max: 1000, timeout: time.Second, keep: true}
	request := func(length int64) *http.Request {
		r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat("x", 1000)))
		r.ContentLength = length
		return r
	}
	first, refusal := reader.read(httptest.NewRecorder(), request(1000))
	if refusal != nil {
		t.Fatal(refusal)
	}
	for _, length := range []int64{1000, -1} {
		if _, refusal := reader.read(httptest.NewRecorder(), request(length)); reasonOf(refusal) != auth.OverBudget || refusal.RetryAfter <= 0 {
			t.Errorf("length %d: %v", length, refusal)
		}
	}
	first.release()
	first.release()
	if b.used.Load() != 0 {
		t.Errorf("%d bytes held", b.used.Load())
	}
	if _, refusal := reader.read(httptest.NewRecorder(), request(1000)); refusal != nil {
		t.Error(refusal)
	}
}

func TestSetBody(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("old"))
	r.TransferEncoding = []string{"chunked"}
	r.Trailer = http.Header{"X-T": nil}
	setBody(r, []byte("newer"))
	if r.ContentLength != 5 || r.Header.Get("Content-Length") != "5" || r.TransferEncoding != nil || r.Trailer != nil || r.GetBody != nil {
		t.Errorf("got %+v", r)
	}
	setBody(r, nil)
	if r.ContentLength != 0 || r.Header.Get("Content-Length") != "" || r.Body != http.NoBody {
		t.Errorf("got %+v", r)
	}
}

func TestRefusalOf(t *testing.T) {
	own := auth.Refuse(auth.InvalidBody, "x")
	if refusalOf(own) != own {
		t.Error("a refusal changed")
	}
	if got := refusalOf(context.Canceled).Reason; got != auth.InternalError {
		t.Error(got)
	}
}
