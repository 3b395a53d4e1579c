package auth_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/card-gateway/card-gateway/auth"
)

func TestScopesAreKeptInOrder(t *testing.T) {
	s, err := auth.ParseScopes([]string{"cards:write", "cards:*", "cards:write", "a-b:c_d2"})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.String(); got != "cards:write cards:* a-b:c_d2" {
		t.Errorf("got %q", got)
	}
}

func TestZeroScopesHoldNothing(t *testing.T) {
	var s auth.Scopes
	if s.Has("cards:read") || s.Has("*") || s.Has("") || s.String() != "" {
		t.Error("the zero value holds something")
	}
}

func TestKnownScopesAreWellFormed(t *testing.T) {
	known := auth.KnownScopes()
	if _, err := auth.ParseScopes(known); err != nil {
		t.Error(err)
	}
	for _, op := range newTable(t).Operations() {
		for _, scope := range op.Scopes {
			if scope != "*" && !op.Own && !slices.Contains(known, scope) {
				t.Errorf("%s needs the unknown scope %s", op.Name, scope)
			}
		}
	}
}

func TestBadScopes(t *testing.T) {
	for _, list := range [][]string{
		nil, {}, {""}, {"cards"}, {"cards:"}, {":read"}, {":*"}, {"*:read"}, {"*:*"}, {"**"}, {"cards:r*"}, {"cards:read:x"},
		{"Cards:read"}, {"cards:Read"}, {"cards: read"}, {"cards:read "}, {"cards.read"}, {"1cards:read"}, {"cards:read", "x y"}, {"cärds:read"},
	} {
		if s, err := auth.ParseScopes(list); err == nil {
			t.Errorf("%q is read as %q", list, s)
		}
	}
}

// FuzzScopes compares Has with its definition.
func FuzzScopes(f *testing.F) {
	f.Add("cards:*", "cards:sensitive")
	f.Add("cards:read", "cards:readx")
	f.Add("*", "*")
	f.Add("card:*", "cards:read")
	f.Fuzz(func(t *testing.T, held, needed string) {
		s, err := auth.ParseScopes([]string{held})
		if err != nil {
			return
		}
		if strings.ContainsAny(s.String(), " \r\n") {
			t.Fatalf("%q in a header", s.String())
		}
		resource, _, _ := strings.Cut(needed, ":")
		want := held == "*" || held == needed ||
			held == resource+":*" && strings.Contains(needed, ":") && needed != "cards:sensitive"
		if got := s.Has(needed); got != want {
			t.Fatalf("%q holds %q: %v", held, needed, got)
		}
	})
}
