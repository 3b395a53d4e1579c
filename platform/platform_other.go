//go:build !unix

package platform

import (
	"errors"
	"os"
)

var errPlatform = errors.New("the embedded store needs a Unix-like system; use Redis here")

// Reserve returns an error.
func Reserve(*os.File, int) error { return errPlatform }

// Map returns an error.
func Map(*os.File, int) ([]byte, error) { return nil, errPlatform }

// Unmap does nothing.
func Unmap([]byte) error { return nil }

// Boot returns "".
func Boot() string { return "" }

// MayWrite returns nil: it cannot be known without creating a file.
func MayWrite(string) error { return nil }
