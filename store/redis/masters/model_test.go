package masters

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// A model of the rules of the beat: two gateways and one that starts, one content, copies
// of it, and failovers. A step is a moment. A nonce may be accepted once.
type beatModel struct {
	now      int64
	content  modelContent
	copies   []modelContent
	replica  modelContent // what a failover promotes
	gateways map[string]*modelGateway
	nonces   map[int]int64 // by number, their stamps
	accepted map[int]int64
	young    map[int]bool // accepted within a check before an older copy took the place
	replaced int64        // when an older copy took the place, 0 never
	history  []string
}

type modelContent struct {
	at, floor int64 // the beat
	made      int64
	server    int // its identity
	nonces    map[int]bool
	servers   map[int]bool // identities that the gateways agreed on
	shared    int64        // the floor of all that they agreed on
}

func (c modelContent) copied(now int64) modelContent {
	c.nonces, c.servers, c.made = maps.Clone(c.nonces), maps.Clone(c.servers), now
	return c
}

type modelGateway struct {
	seen, floor, looked int64
	server              int
}

const (
	modelLook  = 5 // moments between two checks, at most
	modelAhead = 4
)

// look is a check: it agrees on a new server, and reads the beat.
func (m *beatModel) look(g *modelGateway) {
	c := &m.content
	if g.server != c.server {
		if !c.servers[c.server] || g.server != 0 {
			c.shared = max(c.shared, g.seen)
		}
		if !c.servers[c.server] {
			c.shared, c.servers[c.server] = max(c.shared, m.now), true
		}
		g.server = c.server
	}
	g.floor, g.looked = max(g.floor, c.shared), m.now
	m.compare(g)
}

// compare is what beat.lua does.
func (m *beatModel) compare(g *modelGateway) {
	if c := &m.content; c.at < g.seen {
		if g.seen <= g.floor {
			c.floor = g.floor
		} else {
			c.floor = max(m.now, g.seen)
		}
		c.at = max(c.floor, g.seen)
	}
	g.seen = max(g.seen, m.content.at)
}

// settle is what settle.lua does.
func (m *beatModel) settle(g *modelGateway, nonce int) (accepted bool) {
	if g.server != m.content.server {
		m.look(g)
	}
	m.compare(g)
	c := &m.content
	if c.nonces[nonce] || m.nonces[nonce] <= max(g.floor, c.floor)+modelAhead && max(g.floor, c.floor) > 0 {
		return false
	}
	c.nonces[nonce], c.at = true, max(m.now, c.at+1)
	g.seen = c.at
	return true
}

func (m *beatModel) step(t *rapid.T, doing string, with func()) {
	m.now++
	m.history = append(m.history, fmt.Sprint(m.now, " ", doing))
	for _, name := range []string{"a", "b", "c"} {
		if g := m.gateways[name]; g != nil && m.now-g.looked >= modelLook {
			m.look(g)
		}
	}
	with()
}

// TestModelOfTheBeat draws histories. Older copies take the place of the content, servers
// fail over and lose writes, and gateways start, but none between an older copy and the
// next check of the others. No nonce is accepted twice that was stamped no further ahead
// than the floor's margin and accepted before the checks before the copy.
func TestModelOfTheBeat(t *testing.T) {
	for _, topology := range []string{"one server", "Sentinel", "cluster"} { // a slot of a cluster is a content
		t.Run(topology, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := &beatModel{now: 100, nonces: map[int]int64{}, accepted: map[int]int64{}, young: map[int]bool{}, gateways: map[string]*modelGateway{}}
				m.content = modelContent{server: 1, nonces: map[int]bool{}, servers: map[int]bool{1: true}}
				m.replica = m.content.copied(m.now)
				for _, name := range []string{"a", "b"} {
					m.gateways[name] = &modelGateway{looked: m.now, server: 1}
				}
				any := func() *modelGateway {
					name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "gateway")
					if g := m.gateways[name]; g != nil {
						return g
					}
					return m.gateways["a"]
				}
				for range rapid.IntRange(1, 60).Draw(t, "steps") {
					switch rapid.IntRange(0, 9).Draw(t, "action") {
					case 0, 1, 2:
						n := len(m.nonces)
						m.step(t, "new", func() {
							m.nonces[n] = m.now + rapid.Int64Range(-3, modelAhead).Draw(t, "stamped")
							if m.settle(any(), n) {
								m.accepted[n] = m.now
							}
						})
					case 3, 4, 5:
						if len(m.nonces) == 0 {
							continue
						}
						n := rapid.IntRange(0, len(m.nonces)-1).Draw(t, "again")
						m.step(t, fmt.Sprint("again ", n), func() {
							if m.settle(any(), n) {
								if m.accepted[n] != 0 && !m.young[n] {
									t.Fatalf("the nonce %d was accepted twice: %q", n, m.history)
								}
								m.accepted[n] = m.now
							}
						})
					case 6:
						m.step(t, "copy", func() { m.copies = append(m.copies, m.content.copied(m.now)) })
					case 7:
						if len(m.copies) == 0 {
							continue
						}
						c := rapid.SampledFrom(m.copies).Draw(t, "copy")
						m.step(t, "swap", func() {
							if c.server != m.content.server {
								return
							}
							m.content, m.replaced = c.copied(c.made), m.now
							for n, at := range m.accepted {
								m.young[n] = m.young[n] || at > m.now-modelLook
							}
						})
					case 8:
						if topology == "one server" {
							continue
						}
						if rapid.Bool().Draw(t, "the replica follows") {
							m.step(t, "replicate", func() { m.replica = m.content.copied(m.now) })
							continue
						}
						m.step(t, "failover", func() {
							server := m.content.server + 1
							m.content = m.replica.copied(m.now)
							m.content.server = server
							m.replica, m.copies = m.content.copied(m.now), nil
						})
					case 9:
						if m.replaced != 0 && m.now-m.replaced <= modelLook {
							continue
						}
						m.step(t, "start", func() {
							g := new(modelGateway)
							m.gateways["c"] = g
							m.look(g)
						})
					}
				}
			})
		})
	}
}
