package forward

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOptions tries options that cannot work. Each is refused with the reason.
func TestOptions(t *testing.T) {
	t.Parallel()
	one := []Issuer{{Address: "a:1"}}
	for want, o := range map[string]Options{
		"no issuer":                 {},
		"65 issuers":                {Issuers: make([]Issuer, 65)},
		"policy 9":                  {Issuers: one, Policy: 9},
		"maximum of connections":    {Issuers: one, MaxConnections: -1},
		"duration must not":         {Issuers: one, IdleTimeout: -1},
		"must begin with a slash":   {Issuers: one, Check: &Check{Path: "ready"}},
		"hold no blank":             {Issuers: one, Check: &Check{Path: "/a b"}},
		"a second apart":            {Issuers: one, Check: &Check{Path: "/", Every: time.Millisecond}},
		"timeout of the check":      {Issuers: one, Check: &Check{Path: "/", Timeout: -1}},
		"cannot expect status 100":  {Issuers: one, Check: &Check{Path: "/", Status: 100}},
		"missing port":              {Issuers: []Issuer{{Address: "a"}}},
		"socket has no path":        {Issuers: []Issuer{{Address: "unix/"}}},
		"host is empty or":          {Issuers: []Issuer{{Address: "a:1", Host: "a b"}}},
		"minimum version":           {Issuers: one, TLS: &TLS{MinVersion: 1}},
		`issuer ":80": the host is`: {Issuers: []Issuer{{Address: ":80"}}},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// TestEndpoint checks the address to dial and the host of an issuer.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		issuer                 Issuer
		usual                  string
		network, address, host string
	}{
		{Issuer{Address: "a.example:9000"}, ":80", "tcp", "a.example:9000", "a.example:9000"},
		{Issuer{Address: "a.example:80"}, ":80", "tcp", "a.example:80", "a.example"},
		{Issuer{Address: "a.example:80"}, ":443", "tcp", "a.example:80", "a.example:80"},
		{Issuer{Address: "a.example:443"}, ":443", "tcp", "a.example:443", "a.example"},
		{Issuer{Address: "[::1]:443"}, ":443", "tcp", "[::1]:443", "[::1]"},
		{Issuer{Address: "a.example:80", Host: "b.example"}, ":80", "tcp", "a.example:80", "b.example"},
		{Issuer{Address: "unix//run/issuer"}, ":80", "unix", "/run/issuer", "localhost"},
	} {
		network, address, host, err := c.issuer.endpoint(c.usual)
		if err != nil || network != c.network || address != c.address || host != c.host {
			t.Errorf("%+v: %s %s %s, %v", c, network, address, host, err)
		}
	}
}

// TestKinds checks that the names are a closed set, and the status of each
// kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	statuses := map[int]int{}
	for _, k := range Kinds() {
		if name := k.String(); name == "" || name == "unknown" || seen[name] || strings.ToLower(name) != name {
			t.Errorf("kind %d has the name %q", k, name)
		}
		seen[k.String()] = true
		statuses[k.Status()]++
	}
	if want := map[int]int{500: 1, 499: 2, 504: 1, 502: 7, 0: 5}; fmt.Sprint(statuses) != fmt.Sprint(want) {
		t.Errorf("the statuses are %v, want %v", statuses, want)
	}
	if Kind(0).String() != "unknown" || Kind(99).String() != "unknown" {
		t.Error("a number that is no kind has a name")
	}
}

// TestRequestFaults tries requests that could be read as another request. Each
// is refused before any connection is made.
func TestRequestFaults(t *testing.T) {
	t.Parallel()
	f, _ := start(t, nil, "127.0.0.1:1")
	body := strings.NewReader("x")
	for _, r := range []*Request{
		{}, {Method: "GET"}, {Method: "G T", Target: "/"}, {Method: "GET", Target: "/ "}, {Method: "GET", Target: "/\r\nX: y"},
		{Method: "GET", Target: "/", Host: "a\r\n"}, {Method: "CONNECT", Target: "a:1"},
		{Method: "GET", Target: "/", Fields: []Field{{"", ""}}}, {Method: "GET", Target: "/", Fields: []Field{{"X:", ""}}},
		{Method: "GET", Target: "/", Fields: []Field{{"X", "a\nb"}}}, {Method: "GET", Target: "/", Fields: []Field{{"X", "\x00"}}},
		{Method: "GET", Target: "/", Stream: body, Length: -1}, {Method: "GET", Target: "/", Stream: body, Body: []byte{}},
	} {
		got := fetchOf(t.Context(), f, r)
		if kindOf(got.err) != KindRequest || got.err.Forwarded || got.err.Issuer != "" {
			t.Errorf("%+v: %+v, want it refused", r, got.err)
		}
	}
}

// TestDialTexts checks that the text of a failed connection is from a closed
// set.
func TestDialTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"no connection could be made: connection refused": &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"the issuer's name does not resolve":              &net.DNSError{Name: canary, IsNotFound: true},
		"the issuer's name could not be looked up":        &net.DNSError{Err: canary},
		"no connection was made in time":                  &net.DNSError{IsTimeout: true},
		"no connection could be made":                     errors.New(canary),
	} {
		if got := dialText(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// TestUnixSocket forwards over a socket in the file system.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	hosts := make(chan string, 2)
	p := peerOn(t, listener, func(c *peerConn) {
		for r := c.request(); r != nil; r = c.request() {
			hosts <- r.Host
			c.say(okAnswer)
		}
	})
	f, _ := start(t, nil, "unix/"+path)
	wantOK(t, get(f))
	wantOK(t, get(f))
	if got := []string{<-hosts, <-hosts}; !slices.Equal(got, []string{"localhost", "localhost"}) || p.conns.Load() != 1 {
		t.Errorf("the hosts are %q over %d connections", got, p.conns.Load())
	}
}
