package redistest

import (
	"context"
	"io"
	"net"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
)

// Hello is a reply to the first command of a connection.
const Hello = "%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"

// Tag stands for the tag of a script call in the answers of [Answer].
const Tag = "t.1"

// Answer returns a dialer whose connections answer each command with the next of the
// answers, and then end.
func Answer(answers ...string) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			command := make([]byte, 8<<10)
			for _, answer := range answers {
				n, err := there.Read(command)
				if err != nil {
					return
				}
				if tag := tagOf(string(command[:n])); tag != "" {
					answer = strings.Replace(answer, bulk(Tag), bulk(tag), 1)
				}
				if _, err := io.WriteString(there, answer); err != nil {
					return
				}
			}
		}()
		return here, nil
	}
}

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// tagOf returns the tag of a script call, which follows its keys, or "".
func tagOf(command string) string {
	lines := strings.Split(command, "\r\n") // every other one is an argument
	if len(lines) < 7 || !strings.HasPrefix(lines[2], "eval") {
		return ""
	}
	keys, err := strconv.Atoi(lines[6])
	if err != nil || len(lines) <= 8+2*keys {
		return ""
	}
	return lines[8+2*keys]
}

// Allocated returns how many bytes this process has allocated since it started.
func Allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// WantBounded fails if a call has allocated more than replies within their bounds need.
func WantBounded(t *testing.T, n uint64) {
	t.Helper()
	if n > 128<<20 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}
