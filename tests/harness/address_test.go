package harness

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
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

// TestUnused: a port that something listens on is in use. A free one can be listened
// on at once, also while processes are started.
func TestUnused(t *testing.T) {
	stop, starts := make(chan struct{}), sync.WaitGroup{}
	for range 4 {
		starts.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = exec.Command(os.Args[0], "-test.run=^$").Run()
				}
			}
		})
	}
	defer starts.Wait()
	defer close(stop)
	for range 1000 {
		port := FreePort(t)
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		if unused(port) {
			t.Error("a port with a listener is unused")
		}
	}
}
