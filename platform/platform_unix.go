//go:build unix && !linux

package platform

import "os"

// Reserve allocates the disk blocks of the file.
func Reserve(f *os.File, size int) error { return fill(f, size) }

func populate([]byte) {}

// Boot returns "": the run of the machine is unknown here, so every start counts as
// another one, and the replay floor applies.
func Boot() string { return "" }
