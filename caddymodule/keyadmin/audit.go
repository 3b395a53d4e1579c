package keyadmin

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/card-gateway/card-gateway/keys"
)

// auditUnasked writes a line of the audit record for a change that was refused
// before the service of the keys was asked. It returns the error.
func (c *adminCall) auditUnasked(err error) error {
	if early := (unasked{}); errors.As(err, &early) {
		c.audit(err)
	}
	return err
}

func (c *adminCall) audit(err error) {
	c.gateway.AuditCall(keys.Change{At: time.Now(), Actor: c.by.Actor, Claimed: c.by.Claimed, Action: c.action, KeyID: c.id, Err: err})
}

// Calls of strangers are written at this rate, so that they cannot drown the
// record; a line has the number of those that were left out before it.
var (
	strangers = rate.NewLimiter(1, 20)
	leftOut   atomic.Uint64
)

// shutOut writes a line of the audit record for a caller without the right to make
// the call. It returns the error.
func (c *adminCall) shutOut(err error) error {
	if c.by.Actor == "" {
		c.by.Actor = "nobody"
		if !strangers.Allow() {
			leftOut.Add(1)
			return err
		}
		if n := leftOut.Swap(0); n > 0 {
			c.audit(fmt.Errorf("%w (%d more calls without a token before this one have no line)", err, n))
			return err
		}
	}
	c.audit(err)
	return err
}
