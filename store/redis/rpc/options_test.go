package rpc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

func TestOptionsRefused(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const url = "redis://127.0.0.1:1"
	tests := []struct {
		name string
		opt  Options
		says string
	}{
		{"nothing", Options{}, "give one of a URL"},
		{"two places", Options{URL: url, ClusterAddrs: []string{"a:1"}}, "give one of a URL"},
		{"sentinel without a name", Options{SentinelAddrs: []string{"a:1"}}, "the name of their master"},
		{"name without sentinels", Options{URL: url, SentinelMaster: "m"}, "the name of their master"},
		{"database of a cluster", Options{ClusterAddrs: []string{"a:1"}, DB: new(1)}, "no database 1"},
		{"negative database", Options{URL: url, DB: new(-1)}, "database -1"},
		{"negative timeout", Options{URL: url, IOTimeout: -time.Second}, "must not be negative"},
		{"another scheme", Options{URL: "http://user:hunter2@host"}, "redis://, rediss:// or unix://"},
		{"no URL", Options{URL: "redis://user:hunter2@host:port:port"}, "redis://, rediss:// or unix://"},
		{"parameters", Options{URL: url + "?max_retries=3"}, "as options"},
		{"a password", Options{URL: "redis://u:hunter2@h:1"}, "write password env NAME"},
		{"a database below 0", Options{URL: url + "/-1"}, "not understood"},
		{"a fragment", Options{URL: url + "#3"}, "not understood"},
		{"two databases", Options{URL: url + "/3", DB: new(4)}, "write each once"},
		{"a database and its default", Options{URL: url + "/3", DB: new(0)}, "write each once"},
		{"a port beyond the last", Options{URL: "redis://h:99999"}, "not understood"},
		{"no port", Options{ClusterAddrs: []string{"a:1", "b"}}, `"b" is not host:port`},
		{"a port beyond the last in a list", Options{ClusterAddrs: []string{"a:99999"}}, `"a:99999" is not host:port`},
		{"a port of 0", Options{ClusterAddrs: []string{"a:0"}}, `"a:0" is not host:port`},
		{"a URL in a list", Options{ClusterAddrs: []string{"redis://a:1"}}, "one of the addresses is not host:port"},
		{"a path in a list", Options{ClusterAddrs: []string{"a:1/"}}, `"a:1/" is not host:port`},
		{"a comma", Options{SentinelMaster: "m", SentinelAddrs: []string{"a:1,b:1"}}, `"a:1,b:1" is not host:port`},
		{"a user in a list", Options{SentinelMaster: "m", SentinelAddrs: []string{"u:hunter2@a:1"}}, "one of the addresses is not host:port"},
		{"an address twice", Options{ClusterAddrs: []string{"a:1", "a:1"}}, `"a:1" is given twice`},
		{"two users", Options{URL: "redis://a@h", Username: "b"}, "write each once"},
		{"TLS over a plain URL", Options{URL: url, TLS: true}, "write rediss://"},
		{"TLS over a socket", Options{URL: "unix:///s", TLS: true}, "write rediss://"},
		{"authority without TLS", Options{URL: url, CAFile: empty}, "no TLS"},
		{"no authority", Options{URL: "rediss://h:1", CAFile: empty}, "expected PEM"},
		{"unreadable authority", Options{ClusterAddrs: []string{"a:1"}, TLS: true, CAFile: empty + "x"}, "reading the authorities"},
	}
	for _, tt := range tests {
		_, err := New(tt.opt)
		if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want an error that says %q and no password", tt.name, err, tt.says)
		}
	}
}

// TestURLHasOneReader draws URLs. One that is taken is understood to its last byte, and
// as go-redis understands it: nothing in it is left out.
func TestURLHasOneReader(t *testing.T) {
	piece := rapid.SampledFrom([]string{"redis", "rediss", "unix", ":", "/", "//", "h", "a@", "a:b@", "[::1]", "6379", "0", "3", "-1", "+1", "07", "#", "?", "db=1", "&", "%31", "%", " ", "."})
	any := rapid.Map(rapid.SliceOfN(piece, 0, 8), func(p []string) string { return strings.Join(p, "") })
	likely := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"redis://", "rediss://", "unix://"}).Draw(t, "scheme") + rapid.SampledFrom([]string{"", "u@", "u:p@"}).Draw(t, "user") +
			rapid.SampledFrom([]string{"h", "h:1", "[::1]:1", "", "/s"}).Draw(t, "place") + rapid.SampledFrom([]string{"", "/", "/3", "?db=3"}).Draw(t, "database") + any.Draw(t, "rest")
	})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(likely, any).Draw(t, "URL")
		s, err := parseServer(text)
		if err != nil {
			return
		}
		theirs, err := redis.ParseURL(text)
		addr := s.address()
		if err != nil || theirs.Addr != addr || (theirs.Network == "unix") != strings.HasPrefix(addr, "/") || theirs.Username != s.username || theirs.Password != "" || (theirs.TLSConfig != nil) != s.tls || theirs.DB != 0 && strconv.Itoa(theirs.DB) != s.db {
			t.Fatalf("%q is taken as %+v, by go-redis as %+v, %v", text, s, theirs, err)
		}
		rest := text // without what was understood
		for _, part := range []string{"rediss://", "redis://", "unix://", s.username + "@", addr, strings.TrimSuffix(addr, ":6379"), "/", "?db="} {
			rest = strings.TrimPrefix(rest, part)
		}
		if rest != s.db {
			t.Fatalf("%q is taken as %+v, which leaves %q", text, s, rest)
		}
	})
}

func TestPlaceShowsNoCredentials(t *testing.T) {
	for url, want := range map[string]string{
		"redis://user:p@ss@host:1/2": "redis://host:1/2",
		"rediss://host:1":            "rediss://host:1",
		"unix:///run/redis.sock":     "unix:///run/redis.sock",
	} {
		opt := Options{URL: url}
		if got := opt.Place(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
