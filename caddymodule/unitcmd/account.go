//go:build unix

package unitcmd

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account returns the ids of the unit's user; nil: the command runs as the caller,
// who is that user already, or may not become another one.
func (u *unit) account() (*syscall.Credential, error) {
	if u.user == "" || os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup(u.user)
	if err != nil {
		return nil, fmt.Errorf("the user of the unit: %w", err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user of the unit: %w", err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the user of the unit: %w", err)
	}
	if uid == uint64(os.Geteuid()) {
		return nil, nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
