package redis

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
)

// A server that would lose the writes of scripts at its next restart is refused
// when the gateway starts. A running gateway warns and goes on.
func TestForgetfulServer(t *testing.T) {
	t.Parallel()
	config := strings.Replace(snippet(t, "redis.conf"), "user default off ~* &* +@all", "user default off", 1)
	p := documented(t, config)
	opt := Options{Options: rpc.Options{URL: p.URL(), Username: "gateway", Password: "secret"}}
	var clock atomic.Int64
	opt.now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	late, err := New(patient(opt))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	var unfit *rpc.UnfitError
	if err := late.Start(ctx); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "user default off ~* &* +@all") {
		t.Fatalf("Start: %v, want an UnfitError that shows the right line", err)
	}
	p.Do(t, "acl", "setuser", "default", "~*", "&*", "+@all")
	s := open(t, opt)
	r := newKey(t, s)
	p.Do(t, "acl", "setuser", "default", "-hset")
	clock.Store(int64(time.Minute))
	_ = check(s) // a minute has passed; but such a clock differs too much
	clock.Store(0)
	if err := check(s); err != nil {
		t.Fatal(err)
	}
	warnings := fmt.Sprint(s.Status(ctx).Details.Warnings)
	if !strings.Contains(warnings, "may not run hset") {
		t.Errorf("warnings %s, want one on hset", warnings)
	}
	expect(t, s, newClaim(r), auth.Accepted)
	const unknown = "the gateway's user may not ask whether the append-only file can be replayed; give it +acl|dryrun"
	p.Do(t, "acl", "setuser", "gateway", "-acl|dryrun")
	if s := open(t, opt); !strings.Contains(fmt.Sprint(s.Status(ctx).Details.Warnings), unknown) {
		t.Errorf("warnings %v, want %q", s.Status(ctx).Details.Warnings, unknown)
	}
}
