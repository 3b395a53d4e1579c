package masters

import (
	"crypto/rand"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/tests/redistest"
)

func TestSlotsAreThoseOfRedis(t *testing.T) {
	p := redistest.SharedCluster(t)[0]
	n := names{prefix: "a:"}
	for range 200 {
		id := rand.Text()
		if got, want := slot(id), int(p.Do(t, "cluster", "keyslot", "a:{"+id+"}:k").(int64)); got != want {
			t.Fatalf("slot of %s is %d, want %d", id, got, want)
		}
	}
	for i, name := range n.epochs() {
		if got := int(p.Do(t, "cluster", "keyslot", name).(int64)); got/(slots/slotRanges) != i {
			t.Errorf("%s is in slot %d, not in range %d", name, got, i)
		}
	}
}

// For each range of slots, missing returns a name that is never written and
// whose slot is in the range.
func TestNamesOfServedSlots(t *testing.T) {
	n := names{prefix: "cg:"}
	for first := 0; first < slots; first += slots / slotRanges {
		var served slotSet
		served.add(first, first+slots/slotRanges-1)
		name := n.missing(&served)
		tag, _, _ := strings.Cut(strings.TrimPrefix(name, "cg:{"), "}")
		if name == "" || !served.has(slot(tag)) {
			t.Errorf("%s for slots from %d", fmt.Sprintf("%q", name), first)
		}
	}
}

// One gateway reads the fences that another one wrote. The floor of a slot is
// the latest of all fences that include it.
func TestFences(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) fence {
		first := rapid.IntRange(0, slots-1).Draw(t, "first")
		return fence{first, rapid.IntRange(first, slots-1).Draw(t, "last"), rapid.Int64Range(1, 1e16).Draw(t, "at")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var f fences
		for _, next := range rapid.SliceOfN(one, 0, 5).Draw(t, "fences") {
			f = append(f, next)
		}
		read, err := parseFences(f.String())
		if err != nil || len(f) > 0 && !reflect.DeepEqual(read, f) {
			t.Fatalf("%q is read as %v, %v", f, read, err)
		}
		n := rapid.IntRange(0, slots-1).Draw(t, "slot")
		want := int64(0)
		for _, x := range f {
			if x.first <= n && n <= x.last && x.at > want {
				want = x.at
			}
		}
		if got := f.at(n); got != want {
			t.Fatalf("slot %d has floor %d, want %d: %v", n, got, want, f)
		}
	})
	for _, wrong := range []string{"1-2", "1=2", "a-b=c", "1-2=x"} {
		if f, err := parseFences(wrong); err == nil {
			t.Errorf("%q is read as %v", wrong, f)
		}
	}
}
