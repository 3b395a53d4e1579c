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

// ErrNotOwn is never returned here.
var ErrNotOwn = errors.New("cannot be trusted")

// OpenOwn is os.OpenFile: what a link, an owner and a mode are differs here.
func OpenOwn(path string, flag int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, flag, mode)
}

// CheckOwnDir returns nil.
func CheckOwnDir(string) error { return nil }

// MayMake returns nil, as MayWrite does.
func MayMake(string) error { return nil }
