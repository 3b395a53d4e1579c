package harness

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/flock"
)

// madeHere are the directories of build results and running state, which git
// ignores.
var madeHere = map[string]bool{"bin": true, "data": true, "dist": true, "node_modules": true, "testdata": true}

// Binary returns the path of the gateway under test, built from this source
// tree. The packages of tests share it: the first one builds it, and for all
// others the go command finds it up to date.
func Binary(t testing.TB) string {
	t.Helper()
	DependOnSources(t)
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// DependOnSources makes the result of a test depend on the sources. go test
// repeats a cached result while the files that the test has opened are unchanged.
// It does not know the files of a program that the test has started.
func DependOnSources(t testing.TB) {
	t.Helper()
	if err := openSources(); err != nil {
		t.Fatal(err)
	}
}

// openSources opens each directory of the repository, once a process.
var openSources = sync.OnceValue(func() error {
	return walk(func(_, _ string) error { return nil })
})

// built builds the binary once a process.
var built = sync.OnceValues(func() (path string, err error) {
	if os.Getenv("CARD_GATEWAY_TEST_RACE") != "" {
		return build("card-gateway-race", "-race")
	}
	return build("card-gateway")
})

// build builds the binary under a name of its own, one process at a time.
func build(name string, flags ...string) (path string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path = filepath.Join(root, "bin", "test", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	lock := flock.New(path + ".lock")
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("waiting for another build of the gateway: %w", err)
	}
	defer func() { _ = lock.Unlock() }()
	args := append([]string{"build", "-buildvcs=false"}, flags...)
	command := exec.Command("go", append(args, "-o", path, "./cmd/card-gateway")...)
	command.Dir, command.Env = root, os.Environ()
	if slices.Contains(flags, "-race") {
		command.Env = append(command.Env, "CGO_ENABLED=1")
	}
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/card-gateway: %w\n%s", err, out)
	}
	return path, nil
}

// moduleRoot returns the directory of the repository. The tests run below it, some
// in a module of their own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err = os.Stat(filepath.Join(dir, "Caddyfile.example")); err == nil {
			return dir, nil
		}
		if up := filepath.Dir(dir); up != dir {
			dir, err = up, nil
		}
	}
	return "", fmt.Errorf("looking for the root of the module: %w", err)
}

// walk calls visit for each file of the repository, with its path from the root.
// It skips hidden files and the directories in madeHere.
func walk(visit func(root, path string) error) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || madeHere[entry.Name()]):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		from, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(root, from)
	})
}
