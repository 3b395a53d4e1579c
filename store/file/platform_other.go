//go:build !unix

package file

import (
	"errors"
	"os"
)

var errPlatform = errors.New("the embedded store needs a Unix-like system; use Redis here")

func reserve(*os.File, int) error { return errPlatform }

func populate([]byte) {}

func currentBoot() string { return "" }

func mapFile(*os.File, int) ([]byte, error) { return nil, errPlatform }

func unmap([]byte) error { return nil }

func mayWrite(string) bool { return false }
