package redis

import "time"

// If a server's clock was ahead, nonces have expired too early. This is noticed
// when the clock goes back. A clock that cannot be set shows whose clock it was:
// the time since this process began. So a gateway whose own clock is wrong refuses
// alone, and does not raise the floor for all.

// clockReading is a lower bound of how far a server's clock is ahead of the time
// since this process began.
type clockReading struct {
	ahead time.Duration // since 1970
	at    time.Duration // since this process began
}

// A clock may fall back by one part in maxDrift of the passed time without having
// been set; NTP slows a clock down by at most 0.05 %.
const maxDrift = 100

// clocks are the servers' clocks as a gateway has read them.
type clocks struct {
	readings map[string]clockReading // by run
	setBack  map[string]bool         // by run: its clock was set back, and the other gateways do not know yet
}

// read notes the servers whose clocks were set back by more than maxSkew since the
// last reading.
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
