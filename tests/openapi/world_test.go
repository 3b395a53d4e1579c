package openapi

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// A world is a gateway as the example configures it, with the sandbox behind it,
// and what was seen of it.
type world struct {
	t    testing.TB
	g    *harness.Gateway
	j    *judge
	seen map[string]map[int]bool // statuses by "METHOD path" of the document
}

// small is a sandbox that has room for few things, so that it can be filled.
const small = "max_customers 5\nmax_cards 6\nmax_records 4"

// startWorld starts a gateway in front of a sandbox.
func startWorld(t testing.TB, sandboxLines string) *world {
	t.Helper()
	lines, _, _ := declared(t)
	sandbox := harness.FreeAddress(t)
	host, port, _ := strings.Cut(sandbox, ":")
	w := &world{t: t, j: newJudge(t), seen: make(map[string]map[int]bool)}
	w.g = harness.StartGateway(t, harness.Site{
		Global: lines,
		Routes: `@elsewhere header Host elsewhere.example
		route {
			card_refuse @elsewhere unknown_host
			card_rate_limit {
				ietf_headers
			}
			card_auth {
				body_timeout 1s
				pass_header X-Sandbox-Force
			}
			card_translate
			card_forward ` + sandbox + `
		}`,
		Extra: "handle /gateway/v1/* {\ncard_rate_limit\ncard_auth\ncard_self {\nrotate yes\n}\n}\n",
		Sites: fmt.Sprintf("http://:%s {\nbind %s\ncard_sandbox {\n%s\n}\n}\n", port, host, sandboxLines),
	})
	return w
}

// key makes a key that no limit stops.
func (w *world) key(fields harness.Fields) harness.Credentials {
	if fields == nil {
		fields = harness.Fields{}
	}
	if fields["limits"] == nil {
		fields["limits"] = map[string]string{"default": "100000/1m"}
	}
	return w.g.NewKey(fields)
}

// send sends a request and holds the answer, and the request if it was accepted,
// against the document.
func (w *world) send(want int, r *harness.Request) *harness.Response {
	w.t.Helper()
	answer := w.g.Send(w.t, r)
	w.judged(want, r, answer)
	return answer
}

// judged is send for an answer that has come.
func (w *world) judged(want int, r *harness.Request, answer *harness.Response) {
	w.t.Helper()
	if answer.Status != want {
		w.t.Errorf("%s %s answers %.500s, want %d", r.Method, r.Target, answer, want)
		return
	}
	o, u := w.j.operation(strings.ToUpper(r.Method), strings.ReplaceAll(strings.ReplaceAll(r.Target, "//", "/"), "?%zz", ""))
	if o == nil {
		w.t.Errorf("no operation of the document is %s %s", r.Method, r.Target)
		return
	}
	taken := want < 300 || want == 429 || answer.Header.Get("X-Sandbox") != "" || strings.Contains(answer.Body, `"accepted":true`)
	if limits := answer.Header.Get("X-RateLimit-Limit") != ""; limits != taken {
		w.t.Errorf("%s %s answers %.500s: has it the headers of limits? %v, want %v", r.Method, r.Target, answer, limits, taken)
	}
	name := o.Method + " " + o.Path
	if w.seen[name] == nil {
		w.seen[name] = make(map[int]bool)
	}
	w.seen[name][want] = true
	for _, wrong := range w.j.answer(o, u, answer) {
		w.t.Errorf("%s, %d: %s\nin the answer to %s: %.600s", name, want, wrong, r.Target, answer.Body)
	}
	if want < 300 {
		w.request(o, u, r)
	}
}

// request holds a request against the document.
func (w *world) request(o *document.Operation, u *url.URL, r *harness.Request) {
	w.t.Helper()
	sent := &http.Request{
		Method: o.Method, URL: u, Header: make(http.Header), Host: "127.0.0.1:8080",
		Body: io.NopCloser(strings.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}
	for _, line := range r.Headers {
		name, value, _ := strings.Cut(line, ": ")
		if scheme := w.j.scheme(name); !scheme {
			sent.Header.Add(name, value)
		}
	}
	if r.Body == "" {
		sent.Body = http.NoBody
		if o.RequestBody != nil && (o.RequestBody.Required == nil || !*o.RequestBody.Required) {
			return // what may be left out was left out
		}
	}
	if strings.HasPrefix(sent.Header.Get("Content-Type"), "multipart/") || o.Name == "gateway_echo" {
		return // the validator has no decoder for files, and the echo takes anything
	}
	if _, errs := w.j.ValidateHttpRequestSync(sent); len(errs) > 0 {
		w.t.Errorf("the gateway accepts %s %s %s, which is not documented: %s", r.Method, r.Target, r.Body, strings.Join(texts(errs), "\n"))
	}
}

// scheme reports whether a header is one of the five that authenticate.
func (j *judge) scheme(name string) bool {
	for _, scheme := range j.Model.Components.SecuritySchemes.FromOldest() {
		if strings.EqualFold(scheme.Name, name) {
			return true
		}
	}
	return false
}

// documentForm is an upload of a file.
func documentForm(t testing.TB, key harness.Credentials, fields map[string]string) *harness.Request {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		_ = form.WriteField(name, value)
	}
	part, err := form.CreateFormFile("file", "passport.pdf")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = part.Write([]byte("%PDF"))
	_ = form.Close()
	return key.Request("POST", "/api/v1/documents", body.String()).Set("Content-Type", form.FormDataContentType())
}
