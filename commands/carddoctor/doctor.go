// Package carddoctor is the command card-doctor: it looks at everything that a gateway
// needs on its machine, and says what to do about what is wrong. It changes nothing.
//
// Rules are those of the gateway itself: a configuration is validated as by `validate`,
// servers of Redis and issuers are asked by the code that asks them in a gateway. Begin
// with [doctor.examine]. The files:
//
//   - doctor: the command, its lines, and how the checks are run
//   - configuration: what the Caddyfile says
//   - checks: the checks
package carddoctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/commands/cli"
)

// The exit statuses when something was found, and when something could not be looked at.
const exitFound, exitNotChecked = 1, 2

// patience is how long a check may take.
const patience = 10 * time.Second

func init() {
	cli.Register(caddycmd.Command{
		Name:  "card-doctor",
		Usage: "[--config FILE] [--json]",
		Short: "Looks at everything that a gateway needs on this machine, and says what to do",
		Long: `Looks at the configuration, files and their modes, ports, certificates, the store,
each issuer, the admin endpoint, metrics and the clock, and asks the running gateway
what is degraded. It prints a line for each: ok, or what is wrong and what to do.

It exits with 0 if all is fine, 1 if something was found, and 2 if something could
not be checked, the configuration cannot be read, or the command line is wrong. It
changes nothing, prints no secret, and waits at most 10 s for each check.

Run it by card-unit, as root, so that it sees the configuration as the service does.`,
		CobraFunc: func(cmd *cobra.Command) {
			cli.AddAdminFlags(cmd)
			cmd.PersistentFlags().Lookup("config").Usage = "configuration file (default: " + usualFile + ")"
			cmd.PersistentFlags().Lookup("json").Usage = "print the lines as JSON"
			cmd.Args = func(cmd *cobra.Command, args []string) error { return misused(cmd, cobra.NoArgs(cmd, args)) }
			cmd.SetFlagErrorFunc(misused)
			cmd.Example = `  card-unit card-doctor
  card-unit card-doctor --json
  card-doctor --config Caddyfile`
			cmd.RunE = run
		},
	})
}

// misused prints what is wrong with the command line: nothing was looked at.
func misused(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
	return cli.Exit(cmd, exitNotChecked)
}

// The states of a line.
const (
	stateOK         = "ok"
	stateFound      = "found"
	stateNotChecked = "not checked"
)

// A line is the result of one check.
type line struct {
	Check string `json:"check"`           // such as "redis eviction"
	Place string `json:"place,omitempty"` // what was looked at
	State string `json:"state"`           // ok, found or not checked
	Text  string `json:"text,omitempty"`  // what is wrong and what to do, or why it was not checked
}

// A notCheckedError is the reason why something could not be looked at.
type notCheckedError string

func (n notCheckedError) Error() string { return string(n) }

// result returns the line of a check: err is what it has found.
func result(check, place string, err error) line {
	l := line{Check: check, Place: place, State: stateOK}
	var unknown notCheckedError
	if errors.As(err, &unknown) {
		l.State = stateNotChecked
	} else if err != nil {
		l.State = stateFound
	}
	if err != nil {
		l.Text = err.Error()
	}
	return l
}

// A check looks at one place.
type check struct {
	name, place string
	run         func(context.Context) []line
}

// one returns a check with one line.
func one(name, place string, run func(context.Context) error) check {
	return check{name, place, func(ctx context.Context) []line { return []line{result(name, place, run(ctx))} }}
}

// bounded runs the check for as long as it may take. One that hangs, as on a file
// system that does not answer, is left behind.
func (c *check) bounded(ctx context.Context) []line {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done := make(chan []line, 1)
	go func() { done <- c.run(ctx) }()
	select {
	case lines := <-done:
		return lines
	case <-ctx.Done():
		return []line{result(c.name, c.place, fmt.Errorf("no answer within %v", patience))}
	}
}

// all runs checks at the same time, and returns their lines in order.
func all(ctx context.Context, checks []check) []line {
	lines := make([][]line, len(checks))
	var running sync.WaitGroup
	for i := range checks {
		running.Go(func() { lines[i] = checks[i].bounded(ctx) })
	}
	running.Wait()
	return slices.Concat(lines...)
}

func run(cmd *cobra.Command, _ []string) error {
	if cli.Flag(cmd, "config") == "" && len(cli.UnitFiles()) > 0 && os.Getenv("RUNTIME_DIRECTORY") == "" {
		return misused(cmd, errors.New("this is not the environment of the unit: run `card-gateway card-unit card-doctor`, or name another configuration with --config"))
	}
	lines := (&doctor{cmd: cmd}).examine(cmd.Context())
	if err := cli.PrintAnswer(cmd, lines, func(out io.Writer) error { return printLines(out, lines) }); err != nil {
		return err
	}
	if status := exitStatus(lines); status != 0 {
		return cli.Exit(cmd, status)
	}
	return nil
}

// exitStatus returns the exit status for the lines, of which the first is about the
// configuration: without it, most was not looked at.
func exitStatus(lines []line) int {
	has := func(state string) bool {
		return slices.ContainsFunc(lines, func(l line) bool { return l.State == state })
	}
	switch {
	case has(stateFound) && lines[0].State != stateNotChecked:
		return exitFound
	case has(stateNotChecked):
		return exitNotChecked
	default:
		return 0
	}
}

func printLines(out io.Writer, lines []line) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\n", l.State, l.Check, strings.Trim(l.Place+": "+l.Text, ": "))
	}
	return w.Flush()
}
