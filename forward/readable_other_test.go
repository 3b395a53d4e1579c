//go:build !unix

package forward

import (
	"testing"
	"time"
)

// waitReadable hopes, where the system does not let a test look into a socket.
func waitReadable(testing.TB, *issuer) { time.Sleep(100 * time.Millisecond) }
