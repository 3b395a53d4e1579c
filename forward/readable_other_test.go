//go:build !unix

package forward

import (
	"testing"
	"time"
)

// waitReadable waits for a fixed time, because this system has no way to see
// whether bytes have arrived at a socket.
func waitReadable(testing.TB, *issuer) { time.Sleep(100 * time.Millisecond) }
