package rpc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
		if got := opt.Place(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
