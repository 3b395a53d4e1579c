package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is where the binary under test lies; the directory is removed when all
// tests are done.
var built struct {
	dir  string
	once sync.Once
	err  error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "card-gateway-bin")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a directory for the binary under test:", err)
		os.Exit(1)
	}
	built.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// binary returns the path of the gateway under test. It is built from this
// source tree once, when the first test asks.
func binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(built.dir, "card-gateway")
	built.once.Do(func() {
		args, env := []string{"build", "-o", path}, os.Environ()
		if os.Getenv("CARD_GATEWAY_TEST_RACE") != "" {
			args, env = append(args, "-race"), append(env, "CGO_ENABLED=1")
		}
		build := exec.Command("go", append(args, "./cmd/card-gateway")...)
		build.Dir, build.Env = "..", env
		if out, err := build.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build ./cmd/card-gateway: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return path
}
