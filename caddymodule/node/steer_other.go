//go:build !linux

package node

// Only on Linux can a program choose which socket of an address takes new
// connections.

func preferNewest(int) error { return nil }

func leaveToKernel(int) error { return nil }

func steer(func(fd int) error) {}

func listenPlainTCP() {}
