package openapi

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	failures "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi/orderedmap"

	"github.com/card-gateway/card-gateway/tests/harness"
	"github.com/card-gateway/card-gateway/tests/openapi/document"
)

// framing are the headers of HTTP itself, which the document does not repeat.
var framing = []string{"Connection", "Content-Length", "Content-Type", "Date", "Keep-Alive", "Server", "Alt-Svc", "Transfer-Encoding", "Vary", "Via"}

// A judge holds requests and answers against the document. Members of bodies and
// headers that the document does not describe are errors.
type judge struct {
	*document.Document
	validator.Validator
}

func newJudge(t testing.TB) *judge {
	t.Helper()
	d := load(t)
	v, errs := validator.NewValidator(d.Document, config.WithStrictMode(), config.WithFormatAssertions(),
		config.WithoutSecurityValidation(), config.WithStrictIgnoredHeaders(framing...),
		config.WithStrictIgnorePaths(unknownInside()...))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &judge{d, v}
}

// unknownInside returns the places of customers whose members nobody knows.
func unknownInside() (paths []string) {
	for _, object := range []string{"metadata", "business", "address"} {
		for _, place := range []string{"", "data.", "data[*]."} {
			paths = append(paths, "$.body."+place+object+".**")
		}
	}
	return paths
}

// operation returns the operation that a request of the wire calls, with the path
// spelled as the document has it, or nil.
func (j *judge) operation(method, target string) (*document.Operation, *url.URL) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, nil
	}
	sent := strings.Split(strings.TrimSuffix(u.EscapedPath(), "/"), "/")
	for literal := range 2 { // paths that have no placeholder at this place first
		for i := range j.Operations {
			o := &j.Operations[i]
			if o.Method == method && strings.Contains(o.Path, "{") == (literal == 1) {
				if path := spelled(strings.Split(o.Path, "/"), sent); path != "" {
					return o, &url.URL{Path: path, RawQuery: u.RawQuery}
				}
			}
		}
	}
	return nil, nil
}

// spelled returns the path that was sent in the spelling of the pattern, or "" if
// it is another one.
func spelled(pattern, sent []string) string {
	if len(pattern) != len(sent) {
		return ""
	}
	path := slices.Clone(sent)
	for i, segment := range pattern {
		switch {
		case strings.HasPrefix(segment, "{"):
			path[i], _ = url.PathUnescape(sent[i])
		case strings.EqualFold(segment, sent[i]):
			path[i] = segment
		default:
			return ""
		}
	}
	return strings.Join(path, "/")
}

// standIn returns an operation of the document whose answers have the status, for
// answers to requests that call none: a refusal is the same everywhere.
func (j *judge) standIn(status int) *document.Operation {
	for _, name := range []string{"create_customer", "gateway_rotate"} {
		for i := range j.Operations {
			o := &j.Operations[i]
			response := o.Responses.Codes.GetOrZero(strconv.Itoa(status))
			if o.Name == name && response != nil && response.Content.GetOrZero("application/json") != nil {
				return o
			}
		}
	}
	return nil
}

// answer returns what is wrong with an answer to a request of the operation.
func (j *judge) answer(o *document.Operation, u *url.URL, r *harness.Response) []string {
	request := &http.Request{Method: o.Method, URL: u, Header: http.Header{}, Host: "127.0.0.1:8080"}
	response := &http.Response{
		StatusCode: r.Status, Header: r.Header.Clone(), Body: io.NopCloser(strings.NewReader(r.Body)), ContentLength: int64(len(r.Body)), Request: request,
	}
	declared := o.Responses.Codes.GetOrZero(strconv.Itoa(r.Status))
	if declared == nil {
		return []string{fmt.Sprintf("status %d is not documented", r.Status)}
	}
	var wrong []string
	if r.Body != "" && orderedmap.Len(declared.Content) == 0 {
		wrong = append(wrong, "a body is not documented")
	}
	if _, errs := j.ValidateHttpResponse(request, response); len(errs) > 0 {
		wrong = append(wrong, texts(errs)...)
	}
	for name, header := range declared.Headers.FromOldest() {
		if header.Required && r.Header.Get(name) == "" {
			wrong = append(wrong, "the header "+name+" is missing")
		}
	}
	return wrong
}

func texts(errs []*failures.ValidationError) []string {
	var all []string
	for _, e := range errs {
		text := e.Message + ": " + e.Reason
		for _, failure := range e.SchemaValidationErrors {
			text += "; " + failure.FieldPath + ": " + failure.Reason
		}
		all = append(all, text)
	}
	return all
}
