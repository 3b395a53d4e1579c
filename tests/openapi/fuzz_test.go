package openapi

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/tests/harness"
)

// methods are what FuzzAnswers calls with.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "get", "OPTIONS"}

// sayable reports whether HTTP/1 can carry a text in a header.
func sayable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}

// FuzzAnswers: whatever a client signs, the gateway and the sandbox answer as the
// document describes, and accept no body that it does not describe.
func FuzzAnswers(f *testing.F) {
	harness.Fuzzing(f)
	w := startWorld(f, "max_customers 1000\nmax_cards 1000\nmax_records 1000")
	for i := range w.j.Operations {
		o := &w.j.Operations[i]
		target := regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(o.Path, nobody)
		method := uint8(slices.Index(methods, o.Method))
		f.Add(method, target, "application/json", "{}")
		if o.RequestBody == nil {
			continue
		}
		for contentType, media := range o.RequestBody.Content.FromOldest() {
			for _, example := range media.Examples.FromOldest() {
				var body any
				if example.Value.Decode(&body) == nil {
					f.Add(method, target, contentType, compact(body))
				}
			}
		}
	}
	keys := make([]harness.Credentials, 0, 3)
	for _, variant := range []string{"A", "B", "C"} {
		keys = append(keys, w.key(harness.Fields{"customer_variant": variant}))
	}
	f.Fuzz(func(t *testing.T, method uint8, target, contentType, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !sayable(target) || !sayable(contentType) || target[0] != '/' || strings.Contains(target, " ") {
			return // the server answers before any handler
		}
		if strings.HasSuffix(u.Path, "/rotate") {
			return // the keys stay
		}
		for _, key := range keys {
			r := key.Request(methods[int(method)%len(methods)], target, body)
			if contentType != "" {
				r.Set("Content-Type", contentType)
			}
			w.described(t, r)
		}
	})
}

// described sends a request and holds the answer against the document, and the
// request if it was accepted.
func (w *world) described(t testing.TB, r *harness.Request) {
	t.Helper()
	w.t = t
	answer := w.g.Send(t, r)
	recorded := &harness.Recorded{Method: r.Method, Target: r.Target, Status: answer.Status, Header: answer.Header, Body: answer.Body}
	if answer.Header.Get("X-Sandbox") == "" && !ours(recorded) && r.Method != "HEAD" {
		t.Fatalf("neither the gateway nor the sandbox answers %s %q with %d %v %.600s", r.Method, r.Target, answer.Status, answer.Header, answer.Body)
	}
	o, u := w.j.called(recorded)
	if o == nil {
		return
	}
	for _, wrong := range w.j.answer(o, u, answer) {
		t.Errorf("%s %d: %s\nin the answer to %s %q %q: %.600s", o.Name, answer.Status, wrong, r.Method, r.Target, r.Body, answer.Body)
	}
	if _, err := url.ParseQuery(u.RawQuery); err == nil && answer.Status < 300 {
		w.request(o, u, r)
	}
}
