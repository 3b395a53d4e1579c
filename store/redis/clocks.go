package redis

import "time"

// A server whose clock was ahead has let nonces die that should live. That it
// was ahead shows when it goes back. Whose clock did is told by a clock that
// cannot be set: the time since this process began. A gateway whose own clock is
// wrong therefore refuses by itself, and does not raise the floor of all.

// clockReading is how far a server's clock is ahead of the time since this
// process began, at least. What it may fall by slowly is drift.
type clockReading struct {
	ahead time.Duration // since 1970
	at    time.Duration // since this process began
}

// maxDrift is the part of the time that passes by which a clock may fall back
// without having been set; NTP slows a clock down by at most 0.05 %.
const maxDrift = 100

// clocks are the servers' clocks as a gateway has read them.
type clocks struct {
	readings map[string]clockReading // by run
	setBack  map[string]bool         // by run: its clock was, and the other gateways do not know
}

// read notes which servers have set their clocks back, by more than maxSkew,
// since they were read before.
func (c *clocks) read(masters []serverInfo) {
	if c.readings == nil {
		c.readings, c.setBack = make(map[string]clockReading), make(map[string]bool)
	}
	for i := range masters {
		server := &masters[i]
		if server.now.IsZero() {
			continue
		}
		clock := time.Duration(server.now.UnixNano())
		before, found := c.readings[server.run]
		least := before.ahead - (server.answered-before.at)/maxDrift
		if found && clock-server.asked < least-maxSkew { // however long the answer was on its way
			c.setBack[server.run] = true
			found = false
		}
		now := clockReading{clock - server.answered, server.answered}
		if found {
			now.ahead = max(now.ahead, least)
		}
		c.readings[server.run] = now
	}
}
