package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/tests/adminserver"
)

// askSite makes a call of the admin API on a site that listens at the address.
func askSite(t *testing.T, site http.Handler, local net.Addr, call ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, local), call[0], call[1], strings.NewReader(call[3]))
	if call[2] != "" {
		r.Header.Set("Authorization", "Bearer "+call[2])
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	text, _ := io.ReadAll(w.Result().Body)
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%q may be kept by a cache", call)
	}
	return w.Code, string(text)
}

// Who may do what on a site follows from the token, the option and the connection.
func TestSite(t *testing.T) {
	service, changes := adminserver.Keys(t)
	gateway := gatewayForTest(service, changes, &adminapi.State{Ready: true})
	reads, changing := Site(gateway, SiteOptions{}), Site(gateway, SiteOptions{Changes: true})
	loop := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	open := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	socket := &net.UnixAddr{Name: "/run/x.sock", Net: "unix"}
	const list, made = "/card-gateway/keys", `{"tenant":"acme","scopes":["*"]}`
	for _, test := range []struct {
		site  http.Handler
		local net.Addr
		call  []string // method, path, token, body
		code  int
		says  string
	}{
		{reads, loop, []string{"GET", list, "", ""}, 401, "wants a token"},
		{reads, socket, []string{"GET", list, "", ""}, 401, "wants a token"},
		{reads, open, []string{"GET", list, tokenForTest, ""}, 403, "must not cross a network"},
		{reads, loop, []string{"GET", list, tokenForTest[1:], ""}, 401, "no such token"},
		{reads, loop, []string{"GET", list, viewerForTest, ""}, 200, `"keys":`},
		{reads, socket, []string{"GET", list, viewerForTest, ""}, 200, `"keys":`},
		{reads, loop, []string{"GET", "/card-gateway/status?keys=no", tokenForTest, ""}, 200, `"caller":{"name":"tester","role":"viewer"}`},
		{changing, loop, []string{"GET", "/card-gateway/status?keys=no", tokenForTest, ""}, 200, `"caller":{"name":"tester","role":"keys"}`},
		{reads, loop, []string{"GET", "/card-gateway/refusals?key=ck_a&limit=7", viewerForTest, ""}, 200, `"status":7`},
		{reads, loop, []string{"GET", "/card-gateway/refusals?limit=0", viewerForTest, ""}, 422, "want 1 to 100"},
		{reads, loop, []string{"GET", "/card-gateway/recent", viewerForTest, ""}, 200, `"failed":7`},
		{reads, loop, []string{"GET", "/card-gateway/audit?key=ck_a", viewerForTest, ""}, 200, `"path":"ck_a","lines":null,"from":20`},
		{reads, loop, []string{"GET", "/card-gateway/audit?limit=7", viewerForTest, ""}, 422, "want the id of a key"},
		{reads, loop, []string{"GET", "/card-gateway/audit?key=ck_a&limit=101", viewerForTest, ""}, 422, "want 1 to 100"},
		{reads, loop, []string{"GET", "/card-gateway/keys/ck_a/limits", viewerForTest, ""}, 200, `"remaining":12`},
		{reads, loop, []string{"GET", "/card-gateway/keys/ck_none/limits", viewerForTest, ""}, 404, "error"},
		{reads, loop, []string{"POST", list, viewerForTest, made}, 403, "only reads"},
		{reads, loop, []string{"POST", list, tokenForTest, made}, 403, "`changes`"},
		{changing, loop, []string{"POST", list, viewerForTest, made}, 403, "role viewer"},
		{changing, loop, []string{"POST", list, "", made}, 401, "wants a token"},
		{changing, loop, []string{"POST", list, tokenForTest, made}, 201, `"secret":`},
		{changing, loop, []string{"POST", "/card-gateway/drain", tokenForTest, ""}, 404, "admin endpoint"},
		{changing, loop, []string{"POST", "/card-gateway/keys/copy", tokenForTest, "{}"}, 404, "admin endpoint"},
		{changing, loop, []string{"DELETE", "/card-gateway/keys/ck_a", tokenForTest, ""}, 404, "admin endpoint"},
		{changing, loop, []string{"GET", "/config/", tokenForTest, ""}, 404, "admin endpoint"},
	} {
		before := len(*changes)
		code, text := askSite(t, test.site, test.local, test.call...)
		if code != test.code || !strings.Contains(text, test.says) {
			t.Errorf("%q on %v: %d %s, want %d with %s", test.call, test.local, code, text, test.code, test.says)
		}
		if code == 401 && len(*changes) == before && test.call[2] != "" {
			t.Errorf("%q leaves no line in the audit record", test.call)
		}
	}
}

// A search finds a part of the id, the tenant or the description, in any case.
func TestSearch(t *testing.T) {
	s := newAdminServer(t)
	for _, body := range []string{
		`{"tenant":"North.Bank","scopes":["*"]}`, `{"tenant":"south","description":"of the NORTHERN team","scopes":["*"]}`, `{"tenant":"east","scopes":["*"]}`,
	} {
		s.call("POST", "/card-gateway/keys", body)
	}
	for search, want := range map[string]int{"north": 2, "NORTH.bank": 1, "ck_live": 3, "west": 0, "": 3} {
		_, page := s.call("GET", "/card-gateway/keys?search="+search, "")
		if got, _ := page["keys"].([]any); len(got) != want {
			t.Errorf("%q finds %v, want %d keys", search, page, want)
		}
	}
}
