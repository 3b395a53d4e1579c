package issuer

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

func TestForcedStatuses(t *testing.T) {
	i := newTestIssuer(Options{})
	for _, status := range []int{400, 404, 409, 422, 429, 500, 502, 503, 504} {
		r := request("POST", "/api/v1/customers", ann)
		r.Header.Set(HeaderForce, strconv.Itoa(status))
		w := httptest.NewRecorder()
		i.ServeHTTP(w, r)
		if wait := w.Header().Get("Retry-After"); w.Code != status || (wait != "") != (status == 429 || status == 503) {
			t.Errorf("forced %d: %d, Retry-After %q", status, w.Code, wait)
		}
	}
	if i.customers != 0 {
		t.Error("a forced answer has made a customer")
	}
	for _, bad := range []string{"", "200", "teapot", "slow", "slow 61s", "slow -1s", "slow 1", "cut, 500"} {
		r := request("GET", "/api/v1/products", "")
		r.Header.Set(HeaderForce, bad)
		ask(t, i, 400, r)
	}
	for _, usual := range []string{"slow 1ms", "none"} {
		r := request("GET", "/api/v1/products", "")
		r.Header.Set(HeaderForce, usual)
		ask(t, i, 200, r)
	}
}

// TestForcedCut: the request is carried out, and half of the answer comes.
func TestForcedCut(t *testing.T) {
	i := newTestIssuer(Options{})
	server := httptest.NewServer(i)
	defer server.Close()
	r, err := http.NewRequest("POST", server.URL+"/api/v1/customers", strings.NewReader(ann))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = request("POST", "/", "").Header
	r.Header.Set(HeaderForce, "cut")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != 201 || len(body) == 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the cut answer is %d %s, %v", answer.StatusCode, body, err)
	}
	if i.customers != 1 {
		t.Errorf("%d customers were made", i.customers)
	}
}
