package harness

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Clock is the wall clock of one process that the test has started, and can be
// set while it runs.
type Clock struct {
	t    testing.TB
	file string
}

// NewClock returns a clock that shows the correct time.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	c := &Clock{t: t, file: filepath.Join(t.TempDir(), "shift")}
	c.Shift(0)
	return c
}

// Shift sets the clock ahead, in whole seconds. A negative value sets it
// behind.
func (c *Clock) Shift(ahead time.Duration) {
	c.t.Helper()
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600) // in place: it is mapped
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second))); err != nil {
		c.t.Fatal(err)
	}
}

// redisClock is a library that shifts the clock of a process by the seconds in a
// file of 8 bytes. Redis reads the time by these two functions alone.
const redisClock = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *shift;

__attribute__((constructor)) static void map(void) {
	int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY);
	shift = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
}

int gettimeofday(struct timeval *tv, void *tz) {
	static int (*real)(struct timeval *, void *);
	if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
	int r = real(tv, tz);
	tv->tv_sec += *shift;
	return r;
}

time_t time(time_t *t) {
	struct timeval tv;
	gettimeofday(&tv, 0);
	if (t) *t = tv.tv_sec;
	return tv.tv_sec;
}
`

// RedisEnv returns the environment variables for a redis-server that follows
// the clock. It skips the test if there is no C compiler.
func (c *Clock) RedisEnv() []string {
	c.t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		c.t.Skip("needs a C compiler to shift the clock of redis-server")
	}
	dir := c.t.TempDir()
	source, library := filepath.Join(dir, "shift.c"), filepath.Join(dir, "shift.so")
	if err := os.WriteFile(source, []byte(redisClock), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		c.t.Fatalf("%v: %s", err, out)
	}
	return []string{"LD_PRELOAD=" + library, "CLOCK_SHIFT=" + c.file}
}

// binaryWithClock builds the gateway with the clock of package clockshift. A Go
// program reads the time without a library that could be replaced. So the build
// replaces our source files by copies in which time.Now is clockshift.Now.
var binaryWithClock = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "cgo")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	replace := make(map[string]string)
	err = walk(func(root, path string) error {
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") || strings.HasPrefix(path, "sandbox/") {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !readsTheClock.Match(text) {
			return err
		}
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[filepath.Join(root, path)] = copied
		return os.WriteFile(copied, []byte(onClockshift(string(text))), 0o600)
	})
	if err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	return build("card-gateway-clock", "-overlay", overlay)
})

var (
	readsTheClock = regexp.MustCompile(`\btime\.Now\b`)
	packageClause = regexp.MustCompile(`(?m)^package \w+$`)
)

// onClockshift makes a Go file read the clock of clockshift.
func onClockshift(text string) string {
	text = readsTheClock.ReplaceAllString(text, "clockshift.Now")
	end := packageClause.FindStringIndex(text)[1]
	return text[:end] + "\nimport \"github.com/card-gateway/card-gateway/tests/harness/clockshift\"\n" + text[end:] +
		"\nvar _ time.Time // the file may not use the package otherwise\n"
}

// FollowClock makes the gateway follow a clock, from its next start on.
func (g *Gateway) FollowClock(c *Clock) {
	g.T.Helper()
	path, err := binaryWithClock()
	if err != nil {
		g.T.Fatal(err)
	}
	g.binary = path
	g.Env = append(g.Env, "CLOCK_SHIFT="+c.file)
}
