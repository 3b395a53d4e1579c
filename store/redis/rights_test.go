package redis

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// TestEveryRightIsAsked takes each right away that a script needs: a gateway does not
// start without it, and one that runs is not ready until it has it again.
func TestEveryRightIsAsked(t *testing.T) {
	t.Parallel()
	p := own(t, false)
	rule := []any{"acl", "setuser", "gateway"}
	for _, a := range aclRule(t) {
		rule = append(rule, a)
	}
	p.do(t, rule...)
	opt := Options{URL: p.url(), Username: "gateway", Password: "secret"}
	s := open(t, opt)
	r := newKey(t, s)
	for _, command := range append(slices.Clone(scriptCommands), otherCommands...) {
		name := fmt.Sprint(command[0])
		p.do(t, "acl", "setuser", "gateway", "-"+name)
		other, err := New(patient(opt))
		if err != nil {
			t.Fatal(err)
		}
		var unfit *UnfitError
		if err := other.Start(ctx); !errors.As(err, &unfit) || name != "info" && !strings.Contains(err.Error(), "may not run "+strings.ToUpper(name)) {
			t.Errorf("Start without %s: %v", name, err)
		}
		_ = other.Close()
		eventually(t, 3*time.Second, "not ready without "+name, func() bool { return errors.As(s.Ready(ctx), &unfit) })
		p.do(t, "acl", "setuser", "gateway", "+"+name)
		eventually(t, 3*time.Second, "ready with "+name, func() bool { return s.Ready(ctx) == nil })
	}
	expect(t, s, newClaim(r), auth.Accepted)
	p.do(t, "acl", "setuser", "gateway", "-acl|dryrun")
	expect(t, open(t, opt), newClaim(r), auth.Accepted) // it may not ask
}

// TestRightsAreThoseOfTheScripts reads the commands in the scripts.
func TestRightsAreThoseOfTheScripts(t *testing.T) {
	asked := make(map[string]bool)
	for _, command := range append(slices.Clone(scriptCommands), otherCommands...) {
		asked[fmt.Sprint(command[0])] = true
	}
	found := 0
	for _, source := range []string{serverLua, settleLua, levelsLua, getLua, putLua, deleteLua, indexLua, metaLua, adoptLua} {
		for _, call := range regexp.MustCompile(`\bp?call\(\s*'([A-Z]+)'`).FindAllStringSubmatch(source, -1) {
			found++
			if !asked[strings.ToLower(call[1])] {
				t.Errorf("a script calls %s, which no check asks for", call[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("%d calls found", found)
	}
}
