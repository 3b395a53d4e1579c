package cardkeys

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// working shows on a terminal, once a second, what a command that may take long does,
// and for how long. The returned function takes the line away.
func working(cmd *cobra.Command, does func() string) (done func()) {
	to, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(to.Fd())) {
		return func() {}
	}
	stop, stopped, start := make(chan struct{}), make(chan struct{}), time.Now()
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				fmt.Fprintf(to, "\r\x1b[K%s, %d s", does(), int(time.Since(start).Seconds()))
			case <-stop:
				fmt.Fprint(to, "\r\x1b[K")
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// eachKey does something with each of n keys, up to the first error.
func eachKey(cmd *cobra.Command, n int, do func(i int) error) error {
	var at atomic.Int64
	defer working(cmd, func() string { return fmt.Sprintf("key %d of %d", at.Load(), n) })()
	for i := range n {
		at.Store(int64(i) + 1)
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}
