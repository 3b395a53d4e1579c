package cardkeys

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// A terminal shows at which key a command is, until its end. A file gets nothing.
func TestProgress(t *testing.T) {
	screen, terminal := openTerminal(t)
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	read := func() error {
		piece := make([]byte, 1<<10)
		n, err := screen.Read(piece)
		shown.Write(piece[:n])
		return err
	}
	cmd := new(cobra.Command)
	cmd.SetErr(terminal)
	if err := eachKey(cmd, 2, func(i int) error {
		for want := fmt.Sprintf("\r\x1b[Kkey %d of 2, ", i+1); !strings.Contains(shown.String(), want); {
			if err := read(); err != nil {
				return fmt.Errorf("waiting for %q: %w", want, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("the terminal shows %q: %v", shown.String(), err)
	}
	_ = terminal.Close()
	for err == nil {
		err = read()
	}
	if !strings.HasSuffix(shown.String(), " s\r\x1b[K") {
		t.Errorf("the line stays: %q", shown.String())
	}
	cmd.SetErr(file)
	working(cmd, func() string { return "" })()
	if written, err := os.ReadFile(file.Name()); err != nil || len(written) > 0 {
		t.Errorf("a file gets %q, %v", written, err)
	}
}

// openTerminal returns what a new terminal shows, and the terminal.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	_ = screen.SetReadDeadline(time.Now().Add(30 * time.Second)) // a test that fails must end
	control, err := screen.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if outer := control.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}); outer != nil || err != nil {
		t.Fatal(outer, err)
	}
	if terminal, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return screen, terminal
}
