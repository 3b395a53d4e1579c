package masters

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

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
