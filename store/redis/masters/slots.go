package masters

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	slots      = 16384
	slotRanges = 64
)

// slot returns the cluster slot of a hash tag: CRC16 (XMODEM) modulo 16384.
func slot(tag string) int {
	var crc uint16
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			crc = crc<<1 ^ 0x1021*(crc>>15)
		}
	}
	return int(crc % slots)
}

// slotRange returns the range of the slot of a hash tag.
func slotRange(tag string) int { return slot(tag) / (slots / slotRanges) }

// A slotSet is a set of cluster slots, a bit for each.
type slotSet [slots / 64]uint64

// allSlots returns the set of a server without a cluster.
func allSlots() *slotSet {
	var s slotSet
	s.add(0, slots-1)
	return &s
}

// add adds the slots from the first to the last.
func (s *slotSet) add(first, last int) {
	for n := max(first, 0); n <= min(last, slots-1); n++ {
		s[n/64] |= 1 << (n % 64)
	}
}

func (s *slotSet) has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// without returns the slots of s that are not in both a and b.
func (s *slotSet) without(a, b *slotSet) *slotSet {
	var left slotSet
	for i := range s {
		left[i] = s[i] &^ (a[i] & b[i])
	}
	return &left
}

// String writes ranges, as "0-5460 10923-16383".
func (s *slotSet) String() string {
	var ranges []string
	for n := 0; n < slots; n++ {
		if !s.has(n) {
			continue
		}
		first := n
		for n+1 < slots && s.has(n+1) {
			n++
		}
		ranges = append(ranges, fmt.Sprintf("%d-%d", first, n))
	}
	return strings.Join(ranges, " ")
}

// ownSlots returns the slots that the node at the address serves, and how many replicas it
// has, by its own answer to CLUSTER SLOTS.
func ownSlots(addr string, answer []redis.ClusterSlot) (served *slotSet, replicas int64) {
	var s slotSet
	for _, r := range answer {
		if len(r.Nodes) > 0 && r.Nodes[0].Addr == addr {
			s.add(r.Start, r.End)
			replicas = max(replicas, int64(len(r.Nodes)-1))
		}
	}
	return &s, replicas
}

// A fence is the replay floor of some slots, in microseconds: nonces that were
// accepted there until then may be lost. Fences follow the slots, not the
// servers, because slots move and take their nonces along.
type fence struct {
	first, last int
	at          int64
}

// fences are those of which a request may still be in a window.
type fences []fence

// at returns the floor of a slot, 0 when there is none.
func (f fences) at(n int) (floor int64) {
	for i := range f {
		if f[i].first <= n && n <= f[i].last {
			floor = max(floor, f[i].at)
		}
	}
	return floor
}

// String writes the fences as adopt.lua does: "0-5460=1700000000000000".
func (f fences) String() string {
	all := make([]string, len(f))
	for i := range f {
		all[i] = fmt.Sprintf("%d-%d=%d", f[i].first, f[i].last, f[i].at)
	}
	return strings.Join(all, " ")
}

// parseFences reads what String writes.
func parseFences(text string) (all fences, err error) {
	for word := range strings.FieldsSeq(text) {
		var f fence
		if _, err := fmt.Sscanf(word, "%d-%d=%d", &f.first, &f.last, &f.at); err != nil || f.first < 0 || f.last >= slots {
			return nil, fmt.Errorf("%q is not a fence", word)
		}
		all = append(all, f)
	}
	return all, nil
}

// names builds the names of the Redis keys.
//
//	cg:servers      hash: epoch, whether its copies are being made, floors, servers seen
//	cg:beat         the beat; on a cluster cg:{N}:beat, one for each slot
//	cg:{N}:w        never written
//	cg:{N}:e        on a cluster: the epoch again, once per range of slots
type names struct{ prefix string }

func (n names) shared() string { return n.prefix + "servers" }

// epochs returns the names of the epoch keys, the i-th in the i-th of
// slotRanges equal ranges of slots.
func (n names) epochs() []string {
	all := make([]string, slotRanges)
	for found, i := 0, 0; found < slotRanges; i++ {
		tag := strconv.Itoa(i)
		if r := slotRange(tag); all[r] == "" {
			all[r] = n.prefix + "{" + tag + "}:e"
			found++
		}
	}
	return all
}

// missing returns a name in one of the slots that is never written, or "".
func (n names) missing(served *slotSet) string {
	for i, tag := range slotTags() {
		if served.has(i) {
			return n.prefix + "{" + tag + "}:w"
		}
	}
	return ""
}
