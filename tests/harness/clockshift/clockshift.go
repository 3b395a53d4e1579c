// Package clockshift is a wall clock that can be set, for a gateway under test.
// The harness builds such a gateway with Now in place of every time.Now of our
// packages. The gateway that users run does not contain this package.
package clockshift

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// shift returns the memory with the seconds by which the clock is shifted: the
// first 8 bytes of the file that CLOCK_SHIFT names, in the machine's byte
// order.
var shift = sync.OnceValue(func() []byte {
	f, err := os.Open(os.Getenv("CLOCK_SHIFT"))
	if err != nil {
		return make([]byte, 8)
	}
	defer f.Close()
	mapped, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return make([]byte, 8)
	}
	return mapped
})

// Now returns time.Now with a shifted wall clock. As after a real step, the
// monotonic part of the time does not change.
func Now() time.Time {
	now := time.Now()
	seconds := int64(binary.NativeEndian.Uint64(shift()))
	// A time with a monotonic part has its seconds in the bits from bit 30.
	*(*uint64)(unsafe.Pointer(&now)) += uint64(seconds) << 30
	return now
}
