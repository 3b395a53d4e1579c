// Command bench compares the gateway with plain Caddy, with nginx, with HAProxy and
// nginx that have the same checks written by hand, and with a Traefik that limits, all on
// this machine.
// docs/performance.md has the method and the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/card-gateway/card-gateway/bench/report"
	"github.com/card-gateway/card-gateway/bench/server"
)

// root is the repository, seen from the directory of this module.
const root = ".."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

// shipped is the environment that unit, image and `make run` give the gateway.
const shipped = "GOGC=400"

// options are the values of the flags.
type options struct {
	only, scenarios string
	keys            string
	rounds, seconds int
	env, out, from  string
	traefik         string
	docs            bool
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.only, "only", "", "run these servers, separated by commas (default all): "+strings.Join(every, ", "))
	flags.StringVar(&o.scenarios, "scenarios", "", "run these scenarios, separated by commas (default all)")
	flags.StringVar(&o.keys, "keys", "", "measure only what numbers of keys cost on Redis, such as 100,10000,100000,1000000")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each server runs in each scenario")
	flags.IntVar(&o.seconds, "seconds", 3, "how long it runs each time")
	flags.StringVar(&o.env, "env", shipped, "variables for the gateway and for plain Caddy, such as GOGC=100,GOMEMLIMIT=1GiB")
	flags.StringVar(&o.traefik, "traefik", "", "the path of Traefik, which is not measured without it")
	flags.StringVar(&o.out, "out", filepath.Join("results", "last"), "the directory for the figures and the plots")
	flags.StringVar(&o.from, "from", "", "measure nothing; report what this file of figures says")
	flags.BoolVar(&o.docs, "docs", false, "write figures, plots and tables of docs/performance.md instead of -out")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.seconds < 1 {
		return o, fmt.Errorf("want no arguments, at least one round and at least one second")
	}
	return o, nil
}

// list splits at commas. An empty text is an empty list.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	if o.from != "" {
		results, err := report.Read(o.from)
		if err != nil {
			return err
		}
		return o.report(results, out)
	}
	servers := list(o.only)
	switch {
	case len(servers) == 0:
		servers = slices.DeleteFunc(slices.Clone(every), func(name string) bool { return name == server.Traefik && o.traefik == "" })
	case slices.Contains(servers, server.Traefik) && o.traefik == "":
		return errors.New("traefik is not in the distribution; name its program with -traefik PATH")
	}
	chosen, err := choose(list(o.scenarios), servers)
	if err != nil {
		return err
	}
	b := &bench{scenarios: chosen, rounds: o.rounds, span: time.Duration(o.seconds) * time.Second, env: list(o.env), traefik: o.traefik, out: out}
	if o.keys == "" {
		b.announce()
	}
	if b.dir, err = workDir(); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := b.build(ctx, root); err != nil {
		return err
	}
	if o.keys != "" {
		return b.measureKeys(ctx, list(o.keys))
	}
	results := &report.Results{Machine: b.machine(ctx)}
	var failed error
	if results.Rows, failed = b.run(ctx); failed != nil {
		o.docs = false // figures of a part of the run must not go into the docs
	}
	if len(results.Rows) == 0 {
		return failed
	}
	return errors.Join(failed, o.report(results, out))
}

// announce prints what will be done, and how long it takes.
func (b *bench) announce() {
	var sum time.Duration
	for _, s := range b.scenarios {
		sum += s.takes(b.rounds, b.span)
	}
	fmt.Fprintf(b.out, "This builds the gateway and runs %d scenarios, each server in turn for %s, %d times, on the\n"+
		"loopback interface of this machine. It takes about %s. Leave the machine alone meanwhile.\n\n",
		len(b.scenarios), b.span, b.rounds, sum.Round(10*time.Second))
	for _, s := range b.scenarios {
		fmt.Fprintf(b.out, "  %-16s %s: %s\n", s.name, s.title, strings.Join(s.servers, ", "))
	}
	fmt.Fprintln(b.out)
}
