//go:build unix && !linux

package file

import "os"

// reserve allocates the disk blocks of the file.
func reserve(f *os.File, size int) error { return fill(f, size) }

func populate([]byte) {}

// currentBoot is unknown here, so every start counts as another boot of the
// machine, and the replay floor applies.
func currentBoot() string { return "" }
