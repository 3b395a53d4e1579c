package logqueue

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The journal is stopped, and started again: the stream goes on, the descriptor stays.
func TestJournalIsStoppedAndStarted(t *testing.T) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	stream := os.NewFile(uintptr(ends[0]), "stream")
	defer stream.Close()
	var is syscall.Stat_t
	if err := syscall.Fstat(ends[0], &is); err != nil {
		t.Fatal(err)
	}
	if _, ok := overJournal(stream, ends[0]).(*journal); ok {
		t.Error("a stream that systemd has not named is taken for the journal")
	}
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", is.Dev, is.Ino))
	out, ok := overJournal(stream, ends[0]).(*journal)
	if !ok {
		t.Fatal("the stream that systemd has named is not taken for the journal")
	}
	out.socket = filepath.Join(t.TempDir(), "stdout")

	syscall.Close(ends[1])
	if _, err := out.Write([]byte("lost\n")); err == nil {
		t.Error("nobody reads, and no error comes")
	}
	started, err := net.Listen("unix", out.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer started.Close()
	if _, err := out.Write([]byte("again\n")); err != nil {
		t.Fatalf("the journal runs again: %v", err)
	}
	if _, err := stream.WriteString("by others\n"); err != nil {
		t.Fatal(err)
	}
	conn, err := started.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for _, want := range []string{"card-gateway", "", "6", "1", "0", "0", "0", "again", "by others"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the journal got %q, want %q", lines.Text(), want)
		}
	}
}
