package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// A server that would lose the writes of scripts at its next restart is refused
// when the gateway starts. A running gateway warns and goes on.
func TestForgetfulServer(t *testing.T) {
	t.Parallel()
	config := strings.Replace(snippet(t, "redis.conf"), "user default off ~* &* +@all", "user default off", 1)
	p := documented(t, config)
	opt := Options{URL: p.url(), Username: "gateway", Password: "secret"}
	late, err := New(patient(opt))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	var unfit *UnfitError
	if err := late.Start(ctx); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "user default off ~* &* +@all") {
		t.Fatalf("Start: %v, want an UnfitError that shows the right line", err)
	}
	p.do(t, "acl", "setuser", "default", "~*", "&*", "+@all")
	s := open(t, opt)
	r := newKey(t, s)
	p.do(t, "acl", "setuser", "default", "-hset")
	s.servers.checking.Lock()
	s.servers.observations.replayAsked = time.Time{} // a minute has passed
	err = s.servers.checkLocked(ctx, mayBegin)
	s.servers.checking.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	warnings := fmt.Sprint(s.Status(ctx).Details.Warnings)
	if !strings.Contains(warnings, "may not run hset") {
		t.Errorf("warnings %s, want one on hset", warnings)
	}
	expect(t, s, newClaim(r), auth.Accepted)
	p.do(t, "acl", "setuser", "gateway", "-acl|dryrun")
	if s := open(t, opt); !strings.Contains(fmt.Sprint(s.Status(ctx).Details.Warnings), replayUnknown) {
		t.Errorf("warnings %v, want %q", s.Status(ctx).Details.Warnings, replayUnknown)
	}
}
