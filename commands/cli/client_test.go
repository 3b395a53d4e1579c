package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestNoAnswerSaysWhatToDo: a gateway that runs is not to be started, and one with a unit
// not by hand.
func TestNoAnswerSaysWhatToDo(t *testing.T) {
	const socket, tcp = "unix//run/x.sock|0660", "localhost:2019"
	for _, c := range []struct {
		address string
		cause   error
		want    string
		start   bool
	}{
		{socket, syscall.EACCES, "join the group", false},
		{socket, syscall.ECONNREFUSED, "took its socket", true},
		{socket, syscall.ENOENT, "took its socket or removed it", true},
		{tcp, syscall.ECONNREFUSED, "run --config|systemctl start", true},
		{tcp, syscall.ETIMEDOUT, "in time", false},
		{tcp, os.ErrDeadlineExceeded, "in time", false},
		{tcp, errors.New("EOF"), "the call failed", false},
		{tcp, &net.DNSError{Err: "no such host", Name: "x"}, "the call failed", false},
	} {
		// Caddy keeps the text alone.
		text := fmt.Sprintf("performing request: %v", &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", c.cause)})
		want, onUnit, _ := strings.Cut(c.want, "|")
		for unit, want := range map[string]string{"": want, "card-gateway.service": cmp.Or(onUnit, want)} {
			got := adminCallError(c.address, errors.New(text), startHint(strings.Fields(unit))).Error()
			if !strings.HasPrefix(got, "no gateway answers at "+c.address+": ") || !strings.Contains(got, want) || strings.Contains(got, "start it") != c.start {
				t.Errorf("%s, %v: %s", c.address, c.cause, got)
			}
			if c.address == tcp && strings.Contains(got, "socket") {
				t.Errorf("%s has no socket: %s", c.address, got)
			}
		}
	}
}
