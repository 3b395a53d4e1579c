package masters

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A server's clock is reported as set back exactly if it was set back by more
// than is allowed, even if answers are late or this machine stops for a while.
func TestClockSetBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newObservations().clocks
		server, up := time.Duration(1_700_000_000)*time.Second, time.Duration(0)
		read := func() bool {
			info := serverInfo{run: "a", asked: up}
			before := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "way there"))
			back := time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "way back"))
			up, server = up+before, server+before
			info.now = time.Unix(0, int64(server))
			up, server = up+back, server+back
			info.answered = up
			c.read([]serverInfo{info})
			return c.setBack["a"]
		}
		read()
		for range rapid.IntRange(1, 10).Draw(t, "reads") {
			passed := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passed"))
			drift := time.Duration(rapid.Int64Range(-500, 500).Draw(t, "drift, ppm")) * passed / 1_000_000
			slept := time.Duration(rapid.SampledFrom([]int64{0, 0, 60, 3600}).Draw(t, "this machine slept")) * time.Second
			ahead := time.Duration(rapid.SampledFrom([]int64{0, 0, 0, 4, 400}).Draw(t, "set ahead")) * time.Second
			up, server = up+passed, server+passed+drift+slept+ahead
			if read() {
				t.Fatal("the clock was not set back")
			}
		}
		server -= 100 * time.Second
		if !read() {
			t.Fatal("the clock was set back by 100 s")
		}
	})
}
