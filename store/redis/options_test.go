package redis

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/store"
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
		{"database of a cluster", Options{ClusterAddrs: []string{"a:1"}, DB: 1}, "no database 1"},
		{"negative database", Options{URL: url, DB: -1}, "database -1"},
		{"braces", Options{URL: url, Prefix: "{a}"}, "must not hold braces"},
		{"negative timeout", Options{URL: url, IOTimeout: -time.Second}, "must not be negative"},
		{"another scheme", Options{URL: "http://user:hunter2@host"}, "redis://, rediss:// or unix://"},
		{"no URL", Options{URL: "redis://user:hunter2@host:port:port"}, "redis://, rediss:// or unix://"},
		{"parameters", Options{URL: url + "?max_retries=3"}, "parameters"},
		{"two passwords", Options{URL: "redis://u:hunter2@h:1", Password: "b"}, "another one beside it"},
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

func TestPlaceShowsNoCredentials(t *testing.T) {
	for url, want := range map[string]string{
		"redis://user:p@ss@host:1/2": "redis://host:1/2",
		"rediss://host:1":            "rediss://host:1",
		"unix:///run/redis.sock":     "unix:///run/redis.sock",
	} {
		opt := Options{URL: url}
		if got := opt.place(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	s := open(t, single(t))
	status := s.Status(ctx)
	if status.Backend != "redis" || !status.Ready || status.Problem != "" || status.Details.Topology != "single" {
		t.Errorf("%+v", status)
	}
	if warnings := status.Details.Warnings; len(warnings) != 2 {
		t.Errorf("warnings %q; want one on persistence and one on memory", warnings)
	}
}

// TestNearFull: the status reports a server whose memory is nearly used up.
func TestNearFull(t *testing.T) {
	t.Parallel()
	p := own(t, false)
	s := open(t, Options{URL: p.url()})
	if list := degraded(s); len(list) != 0 {
		t.Errorf("degraded %q, want nothing", list)
	}
	p.do(t, "config", "set", "maxmemory", usedMemory(t, p)*10/9)
	eventually(t, 20*time.Second, "nonces", func() bool { return slices.Equal(degraded(s), []string{"nonces"}) })
	p.do(t, "config", "set", "maxmemory", "0")
	eventually(t, 20*time.Second, "nothing", func() bool { return len(degraded(s)) == 0 })
}

func TestInfoCheck(t *testing.T) {
	const run, replication = "run_id:0123456789abcdef0123456789abcdef01234567\r\n", "master_replid:fedcba9876543210fedcba9876543210fedcba98\r\n"
	const fit = run + replication + "redis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n"
	tests := []struct{ name, info, says string }{
		{"fit", fit, ""},
		{"newer", strings.Replace(fit, "7.2.4", "10.0.0", 1), ""},
		{"too old", strings.Replace(fit, "7.2.4", "6.2.14", 1), "version 6.2.14 is too old"},
		{"no version", strings.Replace(fit, "7.2.4", "x", 1), "too old"},
		{"replica", strings.Replace(fit, "master\r", "slave\r", 1), "replica"},
		{"32 bits", fit + "arch_bits:32\r\n", "build for 32 bits"},
		{"evicting", strings.Replace(fit, "noeviction", "volatile-ttl", 1), "volatile-ttl may evict"},
	}
	for _, tt := range tests {
		i, err := parseInfo("a", tt.info)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		err = i.unfit()
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says) || !errors.Is(err, store.ErrUnavailable)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
		if i.identity != "0123456789abcdef.fedcba9876543210" {
			t.Errorf("identity %s", i.identity)
		}
	}
	for _, bad := range []string{"", "nonsense", run, strings.Replace(fit, "role", "rule", 1), fit + "evicted_keys:x\r\n"} {
		if i, err := parseInfo("a", bad); err == nil {
			t.Errorf("%q became %+v", bad, i)
		}
	}
}
