package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestFreePort has two processes choose ports, enough of them that two that did
// not know of each other would choose some twice.
func TestFreePort(t *testing.T) {
	const many, own = 2000, "CARD_TEST_PORTS"
	var chosen []string
	for range many {
		chosen = append(chosen, strconv.Itoa(FreePort(t)))
	}
	if os.Getenv(own) != "" {
		fmt.Println(strings.Join(chosen, " "))
		return
	}
	other := exec.Command(os.Args[0], "-test.run=^TestFreePort$")
	other.Env = append(os.Environ(), own+"=print")
	out, err := other.Output()
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	given := make(map[string]bool)
	for _, port := range append(chosen, strings.Fields(line)...) {
		if given[port] {
			t.Errorf("port %s was given twice", port)
		}
		given[port] = true
	}
	if len(given) != 2*many {
		t.Errorf("%d ports, want %d", len(given), 2*many)
	}
}

// TestUnused: a port that something listens on at one address, or receives
// datagrams on, is in use.
func TestUnused(t *testing.T) {
	port := FreePort(t)
	if !unused(port) {
		t.Fatal("a free port is in use")
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	stream, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if unused(port) {
		t.Error("a port with a listener is unused")
	}
	_ = stream.Close()
	datagrams, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	if unused(port) {
		t.Error("a port that receives datagrams is unused")
	}
}
