package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// A Policy holds the options that should be the same on all gateways of a store,
// by their names in the configuration: window, replay_floor_ahead, lock_after, the
// limits, the operations. Operators read it, so it holds no secret.
type Policy map[string]string

// Hash returns 16 hexadecimal digits that are equal for equal policies.
func (p Policy) Hash() string {
	text, _ := json.Marshal(p) // a map of texts cannot fail, and is sorted
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// Differences lists the names with different values in the policy and in that of the
// named gateway.
func (p Policy) Differences(gateway string, other Policy) []string {
	var list []string
	names := slices.AppendSeq(slices.Collect(maps.Keys(p)), maps.Keys(other))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if theirs, ours := other[name], p[name]; theirs != ours {
			list = append(list, fmt.Sprintf("%s has %s %s, this gateway has %s", gateway, name, cmp.Or(theirs, "none"), cmp.Or(ours, "none")))
		}
	}
	return list
}
