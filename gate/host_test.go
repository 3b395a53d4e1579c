package gate

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// TestHost lists what a Host may be.
func TestHost(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a", "gw.example", "gw.example.", "gw.example:8080", "gw.example:", "192.0.2.1", "192.0.2.1:0", "[::1]", "[::1]:65535", "[2001:db8::1]:", "a_b", "xn--a"} {
		if refusal := checkHost(&http.Request{Host: good, ProtoMajor: 1, ProtoMinor: 1}); refusal != nil {
			t.Errorf("%q: %v", good, refusal)
		}
	}
	for _, bad := range []string{
		"", ":80", "a:b", "a:1:2", "a:65536", "a:99999999999999999999", "a:+1", "a: 1", "[::1", "::1", "[::1]x", "[::1]:x", "[]", "[a]", "[192.0.2.1]", "[fe80::1%25eth0]",
		"a@b", "a/b", "a?b", "a#b", "a,b", "a b", `a\b`, "a]b", "a[b", "%25", "a%2Eb", "a%00", "a!b", "a;b", "a\x00", "a\x7f", "\u00e4", "\xe4", "\uff0e",
	} {
		if checkHost(&http.Request{Host: bad, ProtoMajor: 2}) == nil {
			t.Errorf("%q is a Host", bad)
		}
	}
	if refusal := checkHost(&http.Request{ProtoMajor: 1}); refusal != nil {
		t.Errorf("none in HTTP/1.0: %v", refusal)
	}
}

// TestHostIsReadAlike requires that two other parsers read every Host that passes
// as the same name and port.
func TestHostIsReadAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[a-z0-9.:\[\]@/,#?%-]{1,12}`),
			rapid.StringMatching(`[a-z]{0,2}[\x00-\x{120}]{1,2}[a-z0-9:]{0,3}`),
			rapid.Custom(func(t *rapid.T) string {
				return net.JoinHostPort(rapid.SampledFrom([]string{"gw.example", "::1", "192.0.2.1"}).Draw(t, "host"), strconv.Itoa(rapid.IntRange(0, 70000).Draw(t, "port")))
			}),
		).Draw(t, "Host")
		if !hostWithPort(text) {
			return
		}
		parsed, err := url.Parse("http://" + text + "/")
		if err != nil {
			t.Fatalf("%q passes, and net/url reads %v", text, err)
		}
		if parsed.Host != text || parsed.User != nil || parsed.Path != "/" {
			t.Fatalf("%q passes, and net/url reads the host %q and the path %q", text, parsed.Host, parsed.Path)
		}
		if parsed.Port() == "" {
			return
		}
		if name, port, err := net.SplitHostPort(text); err != nil || name != parsed.Hostname() || port != parsed.Port() {
			t.Fatalf("%q passes, and net reads %q, %q, %v", text, name, port, err)
		}
	})
}
