package redis

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/store"
)

// shiftedClock is a library that shifts the clock of a process by the seconds in
// a file of 8 bytes. Redis reads the time by these two functions alone.
const shiftedClock = `
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

// shifted starts a server whose clock the returned function shifts.
func shifted(t *testing.T) (*process, func(seconds int64)) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs a C compiler to shift the clock of redis-server")
	}
	dir := t.TempDir()
	source, library, file := filepath.Join(dir, "shift.c"), filepath.Join(dir, "shift.so"), filepath.Join(dir, "shift")
	if err := os.WriteFile(source, []byte(shiftedClock), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	shift := func(seconds int64) {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(binary.NativeEndian.AppendUint64(nil, uint64(seconds))); err != nil { // in place: it is mapped
			t.Fatal(err)
		}
	}
	shift(0)
	p := &process{dir: dir, env: []string{"LD_PRELOAD=" + library, "CLOCK_SHIFT=" + file}}
	p.addr = filepath.Join(dir, "s")
	p.config = []string{"--dir", dir, "--save", "", "--port", "0", "--unixsocket", p.addr}
	t.Cleanup(func() { p.kill() })
	p.start(t)
	return p, shift
}

// A server's clock is 500 s ahead for a while and then right again. The step
// lasts longer than the gateways need to see it, or only until its nonces have
// expired. No request is accepted twice, neither during the step nor after it.
func TestClockStepOfTheServer(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]bool{"seen by the gateways": true, "between two checks": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, shift := shifted(t)
			a, b := pair(t, Options{URL: p.url(), IOTimeout: time.Second, SettleTimeout: 2 * time.Second})
			r := newKey(t, a)
			var accepted []*store.Claim
			for range 40 {
				c := newClaim(r)
				expect(t, b, c, auth.Accepted)
				accepted = append(accepted, c)
			}
			nonces := a.names.nonces(r.ID, hashOf(t, p, a, r))
			replayAll := func() {
				for i, c := range accepted {
					v, err := []*Store{a, b}[i%2].Settle(ctx, again(c))
					if err == nil && !v.Stale && v.Reason == auth.Accepted {
						t.Errorf("a request was accepted twice")
					}
				}
			}
			shift(500) // a hash of nonces lives for up to 440 s
			eventually(t, 10*time.Second, "the nonces have expired", func() bool {
				replayAll()
				return p.client.Exists(ctx, nonces).Val() == 0 && (!seen || a.Ready(ctx) != nil && b.Ready(ctx) != nil)
			})
			shift(0)
			replayAll()
			ready := 0
			eventually(t, 10*time.Second, "both gateways have checked the server again", func() bool {
				replayAll()
				if a.Ready(ctx) == nil && b.Ready(ctx) == nil {
					ready++
				}
				return ready > 20
			})
			for _, s := range []*Store{a, b} {
				flows(t, s, r, 10*time.Second)
			}
			replayAll()
		})
	}
}

// hashOf returns the span of the key's latest nonces.
func hashOf(t *testing.T, p *process, s *Store, r *store.Record) int64 {
	t.Helper()
	span, err := p.client.HGet(ctx, s.names.record(r.ID), "hi").Int64()
	if err != nil {
		t.Fatal(err)
	}
	return span
}
