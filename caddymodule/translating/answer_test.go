package translating

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/meter"
	"github.com/card-gateway/card-gateway/caddymodule/request"
	"github.com/card-gateway/card-gateway/caddymodule/settings"
	"github.com/card-gateway/card-gateway/held"
	"github.com/card-gateway/card-gateway/translate"
)

// TestAnswerMemory: an answer without room in the memory is withheld with 502, because
// the request was executed, and its memory is released.
func TestAnswerMemory(t *testing.T) {
	for name, c := range map[string]struct {
		limit  int64
		status int
	}{"room": {16 << 20, http.StatusOK}, "none": {1 << 20, http.StatusBadGateway}} {
		m := held.NewMemory("answer_budget", c.limit, settings.AnswerShare, settings.AnswerShareAddress)
		record := `{"first_name":"` + strings.Repeat("a", 600<<10) + `"}`
		info := &request.Info{Reporter: new(request.NewReporter(zap.NewNop(), nil)), Key: &auth.Key{ID: "k1"}, Operation: &auth.Operation{Name: "get_customer"}}
		r := request.With(httptest.NewRequest(http.MethodGet, "/", nil), info)
		w := httptest.NewRecorder()
		answer := newAnswerWriter(w, r, info, translate.ResponseOptions{Variant: translate.VariantC})
		info.Answer = m.Reserve(info.Caller())
		var most int64
		err := serveTranslated(answer, r, caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, record)
			most = m.Used()
			return err
		}))
		if err != nil || w.Code != c.status {
			t.Errorf("%s: %d, %v; want %d", name, w.Code, err, c.status)
		}
		if c.status == http.StatusOK && most < 600<<10 || m.Used() != 0 {
			t.Errorf("%s: %d bytes were counted, %d are left", name, most, m.Used())
		}
	}
}

// TestUntouchedAnswers: an answer that is not a customer in JSON passes byte for
// byte, with its headers.
func TestUntouchedAnswers(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"conflict", "application/json", `{"first_name":"x", "error":{}}`, http.StatusConflict},
		{"not found", "application/json", `{"a":1,"a":2}`, http.StatusNotFound},
		{"failure of the upstream", "text/html", "<h1>oops", http.StatusInternalServerError},
		{"redirect", "application/json", `{"first_name":"x"}`, http.StatusFound},
		{"text", "text/plain", `{"first_name":"x"}`, http.StatusOK},
		{"lines of JSON", "application/x-ndjson", `{"first_name":"x"}`, http.StatusOK},
		{"no type", "", `{"first_name":"x"}`, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := translateCall{operation: "create_customer", body: customerB}.do(t, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header()["Content-Type"] = []string{c.contentType}
				w.Header().Set("Etag", `"e"`)
				w.WriteHeader(c.status)
				_, err := io.WriteString(w, c.body)
				if flushed := http.NewResponseController(w).Flush(); flushed != nil {
					t.Error(flushed)
				}
				return err
			})
			if w.Code != c.status || w.Body.String() != c.body || w.Header().Get("Etag") != `"e"` || w.Header().Get("Content-Type") != c.contentType || !w.Flushed {
				t.Errorf("%d %s %v, flushed %v", w.Code, w.Body, w.Header(), w.Flushed)
			}
		})
	}
}

func TestAnswersWithoutBody(t *testing.T) {
	for _, c := range []struct {
		name, method string
		status       int
		length       string
	}{
		{"HEAD", http.MethodHead, http.StatusOK, ""},
		{"no content", http.MethodGet, http.StatusNoContent, ""},
		{"not modified", http.MethodGet, http.StatusNotModified, ""},
		{"empty", http.MethodGet, http.StatusOK, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := translateCall{method: c.method, operation: "get_customer", keyVariant: "B"}.do(t, func(w http.ResponseWriter, _ *http.Request) error {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Etag", `"e"`)
				if c.method == http.MethodHead {
					w.Header().Set("Content-Length", "123")
				}
				w.WriteHeader(c.status)
				return nil
			})
			if w.Code != c.status || w.Body.Len() > 0 || w.Header().Get("Etag") != "" || w.Header().Get("Content-Length") != c.length {
				t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
			}
		})
	}
	for _, encoding := range []string{"gzip", "br", "gzip, gzip"} {
		w := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "B"}.do(t, encodedAnswer(encoding, nil))
		if h := w.Header(); w.Code != http.StatusOK || w.Body.Len() > 0 || h.Get("Content-Encoding") != "" || h.Get("Content-Length") != "0" {
			t.Errorf("nothing in %s is answered %d %q %v", encoding, w.Code, w.Body, h)
		}
	}
	t.Run("nothing at all", func(t *testing.T) {
		w := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "B"}.do(t, func(http.ResponseWriter, *http.Request) error { return nil })
		if w.Code != http.StatusOK || w.Body.Len() > 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestEarlyHints(t *testing.T) {
	var hints []int
	answer := func(w http.ResponseWriter, r *http.Request) error {
		w.WriteHeader(http.StatusEarlyHints)
		return answerJSON(http.StatusOK, customerA)(w, r)
	}
	record := func(status int) { hints = append(hints, status) }
	h := &Translate{Upstream: "snake_case"}
	info := &request.Info{Reporter: new(request.NewReporter(zap.NewNop(), nil)), Operation: &auth.Operation{Name: "get_customer"}, Key: &auth.Key{CustomerVariant: "C"}}
	w := &statusWriter{ResponseRecorder: httptest.NewRecorder(), status: record}
	r := request.With(httptest.NewRequest(http.MethodGet, "/api/v1/Customers/1", nil), info)
	if err := h.ServeHTTP(w, r, caddyhttp.HandlerFunc(answer)); err != nil {
		t.Fatal(err)
	}
	if len(hints) != 2 || hints[0] != http.StatusEarlyHints || hints[1] != http.StatusOK || w.Body.String() != customerB {
		t.Errorf("statuses %v, body %s", hints, w.Body)
	}
}

type statusWriter struct {
	*httptest.ResponseRecorder
	status func(int)
}

func (w *statusWriter) WriteHeader(status int) {
	w.status(status)
	if status >= 200 {
		w.ResponseRecorder.WriteHeader(status)
	}
}

func compressed(t *testing.T, body string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func encodedAnswer(encoding string, body []byte) issuerFunc {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", encoding)
		w.Header().Set("Set-Cookie", "secret")
		_, err := w.Write(body)
		return err
	}
}

// TestCompression: the gateway asks the upstream for an uncompressed answer, and
// decompresses gzip.
func TestCompression(t *testing.T) {
	c := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "C", header: http.Header{
		"Accept-Encoding": {"gzip, br"}, "Range": {"bytes=0-1"}, "If-None-Match": {`"e"`}, "If-Match": {`"e"`},
	}}
	w := c.do(t, func(w http.ResponseWriter, r *http.Request) error {
		if h := r.Header; h.Get("Accept-Encoding") != "identity" || h.Get("Range") != "" || h.Get("If-None-Match") != "" || h.Get("If-Match") == "" {
			t.Errorf("asked with %v", r.Header)
		}
		return encodedAnswer("gzip", compressed(t, customerA))(w, r)
	})
	if w.Body.String() != customerB || w.Header().Get("Content-Encoding") != "" || w.Header().Get("Content-Length") != strconv.Itoa(len(customerB)) {
		t.Errorf("%s %v", w.Body, w.Header())
	}
	w = c.do(t, encodedAnswer("identity", []byte(customerA)))
	if w.Body.String() != customerB || w.Header().Get("Content-Encoding") != "" {
		t.Errorf("%s %v", w.Body, w.Header())
	}
}

// TestConditions: no condition of a read reaches the issuer, because a 304 would
// speak of a copy in another form, and each condition of a write does.
func TestConditions(t *testing.T) {
	for operation, method := range map[string]string{"get_customer": "GET", "list_customers": "HEAD", "create_customer": "POST", "update_customer": "PATCH"} {
		reads := method == "GET" || method == "HEAD"
		for name, want := range map[string]bool{
			"If-Modified-Since": false, "Range": false, "If-Range": false, "If-None-Match": !reads, "If-Match": true, "If-Unmodified-Since": true,
		} {
			c := translateCall{method: method, operation: operation, keyVariant: "C", header: http.Header{name: {"*"}}}
			if !reads {
				c.body = customerC
			}
			w := c.do(t, func(w http.ResponseWriter, r *http.Request) error {
				if got := r.Header.Get(name) != ""; got != want {
					t.Errorf("%s of %s reaches the issuer: %v", name, method, got)
				}
				w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
				return answerJSON(http.StatusOK, customerA)(w, r)
			})
			if w.Code != http.StatusOK || w.Header().Get("Last-Modified") != "" {
				t.Errorf("%s: %d %v", method, w.Code, w.Header())
			}
		}
	}
}

// TestCompressionSavesNoMemory: an answer takes as much of the budget as its text
// is long, compressed or not, and all of it comes back.
func TestCompressionSavesNoMemory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := held.NewMemory("answer_budget", 1<<20, 1, 1)
		padding := rapid.IntRange(0, 1<<20).Draw(r, "padding")
		text := `{"metadata":"` + strings.Repeat("x", padding) + `"}`
		c := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "C", answerMemory: m}
		plain := c.do(t, encodedAnswer("identity", []byte(text)))
		packed := c.do(t, encodedAnswer("gzip", compressed(t, text)))
		if plain.Code != packed.Code || plain.Body.String() != packed.Body.String() {
			r.Errorf("%d bytes are answered %d, and compressed %d", len(text), plain.Code, packed.Code)
		}
		if fits := len(text)*2+int(held.Rounded(int64(max(len(text), held.Quick+1)))) <= 1<<20; fits != (packed.Code == http.StatusOK) {
			r.Errorf("%d bytes are answered %d", len(text), packed.Code)
		}
		if used := m.Used(); used != 0 {
			r.Errorf("%d bytes are still counted", used)
		}
	})
}

// TestBombIsRefusedAtOnce: decompression ends where the budget does.
func TestBombIsRefusedAtOnce(t *testing.T) {
	m := held.NewMemory("answer_budget", 1<<20, 1, 1)
	broken := compressed(t, strings.Repeat(" ", 2<<20))
	broken = broken[:len(broken)-8] // who reads to its end says that it is cut off
	w := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "C", answerMemory: m}.do(t, encodedAnswer("gzip", broken))
	if w.Code != http.StatusBadGateway || m.Used() != 0 {
		t.Errorf("%d %s, %d bytes are still counted", w.Code, w.Body, m.Used())
	}
}

// TestWithheld: an answer that cannot be translated becomes 502 without any part
// of it.
func TestWithheld(t *testing.T) {
	plain := answerJSON(http.StatusOK, customerA)
	for _, c := range []struct {
		name   string
		answer issuerFunc
	}{
		{"no JSON", answerJSON(http.StatusOK, `{"secret":`)},
		{"two spellings", answerJSON(http.StatusOK, `{"first_name":"secret","firstName":"secret"}`)},
		{"duplicate name", answerJSON(http.StatusOK, `{"secret":1,"secret":2}`)},
		{"no date", answerJSON(http.StatusOK, `{"date_of_birth":"secret"}`)},
		{"larger than announced", func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Set-Cookie", "secret")
			for range request.MaxAnswer/1024 + 1 {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 1024)); err != nil {
					panic(http.ErrAbortHandler) // as the reverse proxy does
				}
			}
			t.Error("took more than fits")
			return nil
		}},
		{"announced too large", func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(request.MaxAnswer+1))
			_, err := w.Write([]byte("secret"))
			if err == nil {
				t.Error("took the first byte")
			}
			return err
		}},
		{"cut off", func(w http.ResponseWriter, r *http.Request) error {
			if err := plain(w, r); err != nil {
				return err
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			panic(http.ErrAbortHandler)
		}},
		{"a part", answerJSON(http.StatusPartialContent, customerA)},
		{"another compression", encodedAnswer("br", []byte("secret"))},
		{"compressed twice", encodedAnswer("gzip, gzip", compressed(t, customerA))},
		{"not compressed", encodedAnswer("gzip", []byte(customerA))},
		{"compressed and cut off", encodedAnswer("gzip", compressed(t, customerA)[:50])},
		{"a bomb", encodedAnswer("gzip", compressed(t, strings.Repeat(" ", request.MaxAnswer+1)))},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "B"}.do(t, c.answer)
			if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "UPSTREAM_ERROR") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			for name, values := range w.Header() {
				if strings.Contains(strings.Join(values, ""), "secret") || name == "Etag" || name == "Accept-Ranges" {
					t.Errorf("shows %s %v", name, values)
				}
			}
			if strings.Contains(w.Body.String(), "secret") || w.Flushed || w.Header().Get("X-Before") != "kept" {
				t.Errorf("%s %v", w.Body, w.Header())
			}
		})
	}
}

// TestErrorsGoOn: card_translate passes on an error of the upstream handler.
func TestErrorsGoOn(t *testing.T) {
	c := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "B"}
	failure := errors.New("no upstream")
	w := c.do(t, func(http.ResponseWriter, *http.Request) error { return failure })
	if w.Header().Get("Test-Error") != failure.Error() || w.Body.Len() > 0 {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("an answer that went through was not cut off")
		}
	}()
	c.do(t, func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusConflict)
		panic(http.ErrAbortHandler)
	})
}

// TestClientGone: if the client has gone, the reason is not a failure of the
// upstream.
func TestClientGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before := testutil.ToFloat64(meter.TranslationsTotal.WithLabelValues("B", "answer", "failed"))
	w := translateCall{ctx: ctx, method: http.MethodGet, operation: "get_customer", keyVariant: "B"}.do(t, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		cancel()
		panic(http.ErrAbortHandler)
	})
	if w.Code != auth.ClientGone.Status() || testutil.ToFloat64(meter.TranslationsTotal.WithLabelValues("B", "answer", "failed")) != before {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestTrailers: a trailer does not become a header.
func TestTrailers(t *testing.T) {
	w := translateCall{method: http.MethodGet, operation: "get_customer", keyVariant: "C"}.do(t, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Trailer", "X-Sum, X-More")
		err := answerJSON(http.StatusOK, customerA)(w, r)
		w.Header().Set("X-Sum", "1")
		w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		return err
	})
	for _, name := range []string{"Trailer", "X-Sum", http.TrailerPrefix + "X-Late"} {
		if len(w.Header()[name]) > 0 {
			t.Errorf("header %s", name)
		}
	}
}
