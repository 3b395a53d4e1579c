package admin

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	tokenForTest  = "0123456789abcdef0123456789abcdef"
	viewerForTest = "fedcba9876543210fedcba9876543210"
)

var tokensForTest = func() *Tokens {
	tokens, err := parseTokens("tokens", []byte("tester keys "+tokenForTest+"\nwatcher viewer "+viewerForTest+"\n"))
	if err != nil {
		panic(err)
	}
	return tokens
}()

// Whether a call is answered follows from its connection and its token alone.
func TestDoors(t *testing.T) {
	unix := &net.UnixAddr{Name: "/run/x.sock", Net: "unix"}
	loop4, loop6 := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9), Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 1}
	open := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}
	keys, viewer := "Bearer "+tokenForTest, "Bearer "+viewerForTest
	tests := []struct {
		local  net.Addr
		method string
		token  string
		tls    bool
		name   string
		err    error
	}{
		{local: unix, method: "POST", name: "unix:/run/x.sock"},
		{local: unix, method: "POST", token: keys, name: "tester"},
		{local: unix, method: "POST", token: "Bearer x", err: errWrongToken},
		{local: unix, method: "POST", token: viewer, err: errViewer, name: "watcher"},
		{local: loop4, method: "POST", token: keys, name: "tester"},
		{local: loop6, method: "GET", token: viewer, name: "watcher"},
		{local: loop6, method: "DELETE", token: viewer, err: errViewer, name: "watcher"},
		{local: loop4, method: "PATCH", token: viewer, err: errViewer, name: "watcher"},
		{local: loop4, method: "GET", err: errNoToken},
		{local: loop4, method: "GET", token: "Basic " + tokenForTest, err: errWrongToken},
		{local: loop4, method: "GET", token: "Bearer tester keys " + tokenForTest, err: errWrongToken},
		{local: open, method: "GET", token: keys, err: errOpenNetwork},
		{local: open, method: "GET", token: keys, tls: true, name: "tester"},
		{local: open, method: "GET", tls: true, err: errNoToken},
		{local: nil, method: "GET", token: keys, err: errOpenNetwork},
	}
	for _, test := range tests {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, test.local), test.method, "/", nil)
		if test.token != "" {
			r.Header.Set("Authorization", test.token)
		}
		if test.tls {
			r.TLS = new(tls.ConnectionState)
		}
		who, err := new(door).authenticate(r, tokensForTest)
		if who.Name != test.name || !reflect.DeepEqual(err, test.err) {
			t.Errorf("%s on %v with %q: %q, %v; want %q, %v", test.method, test.local, test.token, who.Name, err, test.name, test.err)
		}
		if _, err := new(door).authenticate(r, nil); test.token != "" && err == nil {
			t.Errorf("%s on %v with %q passes where there are no tokens", test.method, test.local, test.token)
		}
	}
}

// A token is found only by its whole text.
func TestTokenIsFoundByItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"", tokenForTest, tokenForTest[:31], tokenForTest + "0", strings.ToUpper(tokenForTest)}), rapid.String()).Draw(t, "text")
		if _, ok := tokensForTest.find(text); ok != (text == tokenForTest || text == viewerForTest) {
			t.Fatalf("%q is found: %v", text, ok)
		}
	})
}

func TestTokensFile(t *testing.T) {
	const a, b = tokenForTest, viewerForTest
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"alice keys " + a, 0o604, "chmod 0640"},
		{"alice keys " + a, 0o620, "chmod 0640"},
		{"alice keys " + a, 0o602, "chmod 0640"},
		{"", 0o600, "holds no token"},
		{"# nobody\n\n", 0o600, "holds no token"},
		{"\nalice keys", 0o600, ":2: want a name"},
		{"alice keys " + a + " x", 0o600, "want a name"},
		{"alice root " + a, 0o600, `no role "root"`},
		{"alice keys " + a[:31], 0o600, "fewer than 32"},
		{"gateway keys " + a, 0o600, "cannot be a name"},
		{"ck_live_x keys " + a, 0o600, "cannot be a name"},
		{"unix:/x keys " + a, 0o600, "cannot be a name"},
		{"alice keys " + a + "\nalice viewer " + b, 0o600, "given a second time"},
		{"alice keys " + a + "\nbob viewer " + a, 0o600, "alice and bob have the same token"},
		{strings.Repeat("#\n", maxTokensFile), 0o600, "larger than"},
	} {
		write(test.text, test.mode)
		if _, err := ReadTokens(path); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), a[:31]) {
			t.Errorf("%.60q, mode %o: %v, want %q", test.text, test.mode, err, test.want)
		}
	}
	write("# who may what\nalice keys "+a+"\nbob  viewer\t"+b+"\n", 0o640)
	tokens, err := ReadTokens(path)
	if err != nil || len(tokens.list) != 2 {
		t.Errorf("%v, %v", tokens, err)
	}
	if _, err := ReadTokens(filepath.Dir(path)); err == nil {
		t.Error("a directory is read as tokens")
	}
}
