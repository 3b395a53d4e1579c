package redis

import "strconv"

// names builds the names of the Redis keys.
//
//	cg:{ID}:k       hash: record, revision, lock, failure count
//	cg:{ID}:b       hash: levels of the rate limits
//	cg:{ID}:n13281  hash: nonces that expire in the same span of time
//	cg:m:NAME       small named value
//	cg:index        sorted set of all ids
//	cg:servers      hash: epoch, whether its copies are being made, floors, servers seen
//	cg:policies     hash: the policy of each gateway
//	cg:{N}:w        never written
//	cg:{N}:e        on a cluster: the epoch again, once per range of slots
type names struct{ prefix string }

func (n names) record(id string) string { return n.prefix + "{" + id + "}:k" }

func (n names) buckets(id string) string { return n.prefix + "{" + id + "}:b" }

func (n names) meta(name string) string { return n.prefix + "m:" + name }

func (n names) index() string { return n.prefix + "index" }

func (n names) shared() string { return n.prefix + "servers" }

func (n names) nodePolicies() string { return n.prefix + "policies" }

func (n names) nonces(id string, span int64) string {
	b := make([]byte, 0, len(n.prefix)+len(id)+20)
	b = append(b, n.prefix...)
	b = append(b, '{')
	b = append(b, id...)
	b = append(b, "}:n"...)
	return string(strconv.AppendInt(b, span, 10))
}

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
	for i := range slots { // far more than are needed
		if tag := strconv.Itoa(i); served.has(slot(tag)) {
			return n.prefix + "{" + tag + "}:w"
		}
	}
	return ""
}
