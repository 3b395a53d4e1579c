package matrix

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// A gatewayCase is a request that reaches the issuer as it was meant, or is
// refused by the client before anything is sent.
type gatewayCase struct {
	Name    string
	Method  string
	Target  string
	Query   [][2]string // parameters that the client encodes
	Content *string     // the body; null for none
	Size    int         // of a body of bytes
	Kind    string      // "form", "stream"; empty for bytes
	Clock   int         // how many seconds the client's clock is ahead

	AcceptMethod string   `json:"accept_method"` // instead of Method
	Accept       []string // other spellings of the target that do as well
	NeverAsTyped bool     `json:"never_as_typed"`
	MayRefuse    bool     `json:"may_refuse"`
	Refuse       bool     // it must be refused, or be sent in an accepted spelling
}

func (c gatewayCase) body() []byte {
	switch {
	case c.Size > 0:
		return bytes.Repeat([]byte("0123456789abcde\xff"), c.Size/16)
	case c.Content != nil:
		return []byte(*c.Content)
	}
	return nil
}

func (b bench) send(t *testing.T, c gatewayCase) {
	b.upstream.Took()
	got := b.driver.do(t, call{
		Do: "request", Adapter: b.adapter, Base: "http://" + b.gateway.Addr, KeyID: b.key.ID, Secret: b.key.Secret,
		Method: c.Method, Target: c.Target, Query: c.Query, Body: c.body(), HasBody: c.body() != nil, Kind: c.Kind, Clock: c.Clock,
	})
	if got.Error != nil && got.Error.Type == "unsignable" {
		if !c.MayRefuse && !c.Refuse {
			t.Errorf("refused: %s", got.Error.Message)
		}
		if got.Error.Message == "" {
			t.Error("refused without a reason")
		}
		b.upstream.None(t)
		return
	}
	if got.Error != nil || got.Status != 200 || (c.Method != "HEAD" && string(got.Body) != `{"ok":true}`) {
		t.Fatalf("the answer is %d %s %+v", got.Status, got.Body, got.Error)
	}
	c.arrived(t, b.upstream.One(t))
}

// arrived checks what reached the issuer.
func (c gatewayCase) arrived(t *testing.T, r *harness.Received) {
	method, rest, _ := strings.Cut(r.Line, " ")
	target := strings.TrimSuffix(rest, " HTTP/1.1")
	if want := c.Method; method != want && (c.AcceptMethod == "" || method != c.AcceptMethod) {
		t.Errorf("%s arrived, want %s", method, want)
	}
	asTyped := target == c.Target && !c.NeverAsTyped && !c.Refuse
	switch {
	case c.Query != nil:
		c.decoded(t, target)
	case !asTyped && !slices.Contains(c.Accept, target):
		t.Errorf("the target %q arrived, want %q or one of %q", target, c.Target, c.Accept)
	}
	switch {
	case c.Kind == "form":
		c.form(t, r)
	case r.Body != string(c.body()):
		t.Errorf("%d bytes arrived, want %d:\n%.300q", len(r.Body), len(c.body()), r.Body)
	}
}

// decoded checks the parameters that the client has encoded.
func (c gatewayCase) decoded(t *testing.T, target string) {
	path, query, _ := strings.Cut(target, "?")
	got, err := url.ParseQuery(query)
	if err != nil || path != c.Target || len(got) != len(c.Query) {
		t.Errorf("%q arrived: %v", target, err)
	}
	for _, pair := range c.Query {
		if got.Get(pair[0]) != pair[1] {
			t.Errorf("%s is %q, want %q", pair[0], got.Get(pair[0]), pair[1])
		}
	}
}

// form checks the field and the file of a form.
func (c gatewayCase) form(t *testing.T, r *harness.Received) {
	_, options, err := mime.ParseMediaType(r.Value("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(strings.NewReader(r.Body), options["boundary"]).ReadForm(1 << 20)
	if err != nil {
		t.Fatalf("%v in\n%s", err, r.Raw())
	}
	files := form.File["file"]
	if len(files) != 1 || files[0].Filename != "Zoë.pdf" || !slices.Equal(form.Value["type"], []string{"passport"}) {
		t.Fatalf("the form is %+v %+v, want type passport and the file Zoë.pdf", form.Value, form.File)
	}
	file, err := files[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if content, err := io.ReadAll(file); err != nil || string(content) != *c.Content {
		t.Errorf("the file is %q, %v", content, err)
	}
}

// A vector is one request of tests/vectors.
type vector struct {
	Name         string
	Method       string
	Target       string
	TargetBase64 []byte `json:"target_base64"`
	Headers      map[string][]string
	Body         string
	BodyBase64   []byte `json:"body_base64"`
	Expect       struct{ Reason string }
}

// target returns the target with one character for each byte.
func (v vector) target() string {
	if v.TargetBase64 == nil {
		return v.Target
	}
	runes := make([]rune, len(v.TargetBase64))
	for i, c := range v.TargetBase64 {
		runes[i] = rune(c)
	}
	return string(runes)
}

// header returns a value, or "" for a vector without the header.
func (v vector) header(name string) string { return strings.Join(v.Headers[name], ",") }

func (v vector) body() []byte { return append([]byte(v.Body), v.BodyBase64...) }

func readVectors(t *testing.T, file string) []vector {
	t.Helper()
	text, err := os.ReadFile("../../vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Requests []vector }
	if err := json.Unmarshal(text, &all); err != nil || len(all.Requests) < 50 {
		t.Fatalf("%s: %d requests, %v", file, len(all.Requests), err)
	}
	return all.Requests
}

// version is what each client must be.
func version(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(strings.TrimSpace(string(text)), "-dev")
}
