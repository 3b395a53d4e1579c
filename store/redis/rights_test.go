package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store/redis/rpc"
	"github.com/card-gateway/card-gateway/tests/redistest"
)

// TestEveryRightIsAsked takes each right away that a script needs: a gateway does not
// start without it, and one that runs is not ready until it has it again.
func TestEveryRightIsAsked(t *testing.T) {
	t.Parallel()
	p := redistest.Own(t, false)
	rule := []any{"acl", "setuser", "gateway"}
	for _, a := range aclRule(t) {
		rule = append(rule, a)
	}
	p.Do(t, rule...)
	opt := Options{Options: rpc.Options{URL: p.URL(), Username: "gateway", Password: "secret"}}
	s := open(t, opt)
	r := newKey(t, s)
	for _, command := range append(slices.Clone(rights.Script), rights.Other...) {
		name := fmt.Sprint(command[0])
		p.Do(t, "acl", "setuser", "gateway", "-"+name)
		other, err := New(patient(opt))
		if err != nil {
			t.Fatal(err)
		}
		var unfit *rpc.UnfitError
		if err := other.Start(ctx); !errors.As(err, &unfit) || name != "info" && !strings.Contains(err.Error(), "may not run "+strings.ToUpper(name)) {
			t.Errorf("Start without %s: %v", name, err)
		}
		_ = other.Close()
		redistest.Eventually(t, 3*time.Second, "not ready without "+name, func() bool { return errors.As(s.Ready(ctx), &unfit) })
		p.Do(t, "acl", "setuser", "gateway", "+"+name)
		redistest.Eventually(t, 3*time.Second, "ready with "+name, func() bool { return s.Ready(ctx) == nil })
	}
	expect(t, s, newClaim(r), auth.Accepted)
	p.Do(t, "acl", "setuser", "gateway", "-acl|dryrun")
	expect(t, open(t, opt), newClaim(r), auth.Accepted) // it may not ask
}

// TestRightsAreThoseOfTheScripts reads the commands in the scripts.
func TestRightsAreThoseOfTheScripts(t *testing.T) {
	asked := make(map[string]bool)
	for _, command := range append(slices.Clone(rights.Script), rights.Other...) {
		asked[fmt.Sprint(command[0])] = true
	}
	found := 0
	for _, pattern := range []string{"*.lua", "masters/*.lua", "rpc/*.lua"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, call := range regexp.MustCompile(`\bp?call\(\s*'([A-Z]+)'`).FindAllStringSubmatch(string(source), -1) {
				found++
				if !asked[strings.ToLower(call[1])] && call[1] != "HSTRLEN" { // without it a large record is read as a whole
					t.Errorf("a script calls %s, which no check asks for", call[1])
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("%d calls found", found)
	}
}
