package masters

import (
	"errors"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/store"
)

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
	for extra, want := range map[string]string{"": "7.2.4", "server_name:redis\r\n": "7.2.4", "server_name:valkey\r\nvalkey_version:8.1.1\r\n": "valkey 8.1.1"} {
		if i, err := parseInfo("a", fit+extra); err != nil || i.product != want || i.version != "7.2.4" {
			t.Errorf("%q is shown as %q, compatible with %q: %v", extra, i.product, i.version, err)
		}
	}
	for _, bad := range []string{"", "nonsense", run, strings.Replace(fit, "role", "rule", 1), fit + "used_memory:x\r\n"} {
		if i, err := parseInfo("a", bad); err == nil {
			t.Errorf("%q became %+v", bad, i)
		}
	}
}

// FuzzInfo: any text in place of INFO is read or refused.
func FuzzInfo(f *testing.F) {
	for _, seed := range []string{
		"", "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nrun_id:a\r\nmaster_replid:b\r\n", "role:slave", "redis_version:", "redis_version:99999999999999999999\nrole:master",
		"slave0:ip=127.0.0.1,port=1,state=online,offset=1,lag=-1\r\nrole:master", "connected_slaves:-1", ":::\r\n", "used_memory:-1\r\nrole:master\r\nredis_version:7.2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reply string) {
		info, err := parseInfo("a:1", reply)
		if err != nil {
			return
		}
		if err := info.unfit(); err == nil && !strings.Contains(reply, "noeviction") {
			t.Fatalf("%q is fit, and does not say that it evicts nothing", reply)
		}
		_ = info.refusing()
	})
}

// A server can hand over only if this gateway used it in the same run.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	old, next := strings.Repeat("a", 40), strings.Repeat("b", 40)
	promoted := serverInfo{role: "master", replication: next, replication2: old, offset2: 100}
	for name, tt := range map[string]struct {
		demoted serverInfo
		want    bool
	}{
		"everything":      {serverInfo{role: "slave", replication: next, replication2: old, offset2: 100}, true},
		"less":            {serverInfo{role: "slave", replication: next, replication2: old, offset2: 90}, true},
		"more":            {serverInfo{role: "slave", replication: next, replication2: old, offset2: 101}, false},
		"nothing known":   {serverInfo{role: "slave", replication: next, replication2: old, offset2: -1}, false},
		"a full copy":     {serverInfo{role: "slave", replication: next, replication2: strings.Repeat("0", 40), offset2: -1}, false},
		"still a master":  {serverInfo{role: "master", replication: old, replication2: old, offset2: 90}, false},
		"another history": {serverInfo{role: "slave", replication: strings.Repeat("c", 40), replication2: old, offset2: 90}, false},
	} {
		if got := tt.demoted.handedOver(&promoted); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
