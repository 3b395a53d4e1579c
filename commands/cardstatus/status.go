// Package cardstatus is the commands card-status and card-node: they show the state of
// a running gateway, and take it out of service or make it log more, over its admin
// API. Begin with runStatus and changeNode.
package cardstatus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/keys"
)

// The exit statuses when a gateway is not ready, when none answers, and for a command
// line that is wrong.
const exitNotReady, exitNoAnswer, exitMisused = 1, 2, 3

func init() {
	cli.Register(caddycmd.Command{
		Name:  "card-status",
		Usage: "[--verbose] [--live] [--wait SPAN]",
		Short: "Reports whether a running Card Gateway is ready, by its exit status",
		Long: `Asks the running gateway, over its admin endpoint, whether it is ready. It exits
with 0 if the gateway is ready to serve, 1 if it answers and is not ready, 2
if it does not answer, and 3 if the command line is wrong.

With --wait it asks again until the gateway is ready or the time is over. With
--live it is enough that the gateway answers: so a service manager does not stop a
gateway whose store is down, which a restart cannot mend. With --process there is no
answer once that process has ended, such as that of a gateway that refuses to start,
also if another gateway answers.

The admin endpoint is found as by card-keys.`,
		CobraFunc: func(cmd *cobra.Command) {
			cli.AddAdminFlags(cmd)
			cmd.Flags().BoolP("verbose", "v", false, "also show store, keys, master keys, policy, loads and the keys with the most refusals")
			cmd.Flags().Bool("live", false, "succeed if the gateway answers, ready or not")
			cmd.Flags().String("wait", "0s", "ask again for this long, as in 30s")
			cmd.Flags().Int("process", 0, "ask only while the process with this id runs")
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if err := cobra.NoArgs(cmd, args); err != nil {
					return usageError(cmd, err)
				}
				return nil
			}
			cmd.SetFlagErrorFunc(usageError)
			cmd.Example = `  card-status
  card-status --verbose --address unix//run/card-gateway/admin.sock
  card-status --live --wait 30s`
			cmd.RunE = runStatus
		},
	})
}

// statusEvery is the pause between two questions.
const statusEvery = 200 * time.Millisecond

func runStatus(cmd *cobra.Command, _ []string) error {
	wait, err := caddy.ParseDuration(cli.Flag(cmd, "wait"))
	if err != nil || wait < 0 {
		return usageError(cmd, errors.New("--wait: want a duration such as 30s"))
	}
	live := cli.IsSet(cmd, "live")
	process, _ := cmd.Flags().GetInt("process")
	path := "/card-gateway/status"
	if !cli.IsSet(cmd, "verbose") {
		path += "?keys=no"
	}
	answer, raw, err := askStatus(cmd, path, process)
	for asked := time.Duration(0); asked < wait && (err != nil || !live && !answer.Ready) && processRuns(process); asked += statusEvery {
		time.Sleep(statusEvery)
		answer, raw, err = askStatus(cmd, path, process)
	}
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "no answer:", err)
		return cli.Exit(cmd, exitNoAnswer)
	}
	err = cli.PrintAnswer(cmd, raw, func(out io.Writer) error { return printStatus(cmd, out, &answer) })
	if err == nil && !live && !answer.Ready {
		err = cli.Exit(cmd, exitNotReady)
	}
	return err
}

// askStatus asks once. An answer does not count once the process has ended that it
// should be of.
func askStatus(cmd *cobra.Command, path string, process int) (answer adminapi.Status, raw json.RawMessage, err error) {
	raw, err = cli.Call(cmd, cli.Request{Path: path}, &answer)
	if err == nil && !processRuns(process) {
		err = fmt.Errorf("process %d has ended, and another one answers", process)
	}
	return answer, raw, err
}

// usageError prints what is wrong with the command line. No script takes its exit status
// for a state of the gateway.
func usageError(cmd *cobra.Command, err error) error {
	fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
	return cli.Exit(cmd, exitMisused)
}

// processRuns reports whether a process has not ended. Of process 0 nothing is known.
func processRuns(id int) bool {
	if id == 0 {
		return true
	}
	process, err := os.FindProcess(id)
	return err == nil && !errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func printStatus(cmd *cobra.Command, out io.Writer, s *adminapi.Status) error {
	line := "ready"
	if !s.Ready {
		line = "not ready: " + s.Reason
	}
	if len(s.Degraded) > 0 {
		line += "; degraded: " + strings.Join(s.Degraded, ", ")
	}
	fmt.Fprintln(out, line)
	if !cli.IsSet(cmd, "verbose") {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	row("version", "%s (%s), Caddy %s, %s", s.Version, s.Commit, s.Caddy, s.Go)
	row("node", "%s", nodeText(&s.Node))
	row("store", "%s %s", s.Store.Backend, s.Store.Place)
	if s.Store.Problem != "" {
		row("", "%s", s.Store.Problem)
	}
	keyRows(s, row)
	row("policy", "%s", s.Policy)
	if floor := s.Store.Details.ReplayFloor; !floor.IsZero() {
		row("replay floor", "%s", floor.Format(time.RFC3339Nano))
	}
	row("loaded", "%s", cli.TimeOr(&s.Loads.At, "never"))
	if s.Loads.RefusedAt != nil {
		row("load refused", "%s: %s", cli.TimeOr(s.Loads.RefusedAt, ""), s.Loads.Refusal)
	}
	if s.Audit != nil {
		row("audit", "%s, line %d %s", s.Audit.Path, s.Audit.Seq, s.Audit.Trouble)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printOffenders(out, s)
}

// keyRows shows how many keys there are, and what seals them. Of keys that could
// not be counted it shows no number: an operator removes a master key that seals
// none.
func keyRows(s *adminapi.Status, row func(name, format string, args ...any)) {
	if s.Problem != "" {
		row("keys", "not counted: %s", s.Problem)
		return
	}
	row("keys", "%d active, %d disabled, %d locked, %d expired, %d forged, %d unreadable", s.Keys["active"], s.Keys["disabled"], s.Keys["locked"], s.Keys["expired"], s.Keys[keys.StatusForged], s.Keys[keys.StatusUnreadable])
	row("counted", "%s", cli.TimeOr(s.CountedAt, "now"))
	row("expiring", "%d within a day, %d within a week, %d within 30 days", s.Expiring["1d"], s.Expiring["7d"], s.Expiring["30d"])
	for _, sealed := range s.SealedBy {
		if sealed.MasterKey == 0 {
			row("sealed", "%d secrets under a master key that was not given", sealed.Secrets)
			continue
		}
		row("sealed", "%d secrets under master key %d (%s)", sealed.Secrets, sealed.MasterKey, sealed.Tag)
	}
	row("records", "%d sealed, %d without a seal, %d refused", s.Seals[keys.SealSealed], s.Seals[keys.SealUnsealed], s.Seals[keys.SealRefused])
}

// printOffenders shows the keys with the most refusals.
func printOffenders(out io.Writer, s *adminapi.Status) error {
	if len(s.Offenders) == 0 {
		fmt.Fprintln(out, "\nno key was refused in the last five minutes")
		return nil
	}
	fmt.Fprintln(out, "\nmost refusals of the last five minutes")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REFUSED\tLAST REASON\tTENANT\tKEY")
	for _, o := range s.Offenders {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", o.Refused, o.Reason, o.Tenant, o.Key)
	}
	return w.Flush()
}

func init() {
	cli.Register(caddycmd.Command{
		Name:  "card-node",
		Usage: "drain|undrain|log-level",
		Short: "Takes a running Card Gateway out of service, or logs each request for a time",
		Long: `Changes one running gateway, over its admin endpoint, until its process ends.
The admin endpoint is found as by card-keys.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, cli.RefuseUnknown
			cli.AddAdminFlags(cmd)
			level := &cobra.Command{
				Use: "log-level debug|info", Args: cli.Wants("debug or info"),
				Short: "Logs a line for each request for a time, or ends that",
				Long: `With debug, the log has a line for each accepted request and for each refusal,
also in a flood, until the time of --for is over. With info that ends at once.`,
				Example: "  card-node log-level debug --for 15m",
			}
			level.Flags().String("for", "15m", "how long debug holds, at most 24h")
			level.RunE = func(cmd *cobra.Command, args []string) error {
				return changeNode(cmd, "/card-gateway/log-level", adminapi.LogLevelRequest{Level: args[0], For: cli.Flag(cmd, "for")})
			}
			cmd.AddCommand(drainCommand(), &cobra.Command{
				Use: "undrain", Args: cobra.NoArgs, Short: "Ends drain",
				RunE: func(cmd *cobra.Command, _ []string) error { return changeNode(cmd, "/card-gateway/undrain", nil) },
			}, level)
		},
	})
}

func drainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "drain", Args: cobra.NoArgs, Short: "Makes /readyz answer 503 at once; requests are served",
		Long: `Makes /readyz answer 503 at once, so that the load balancer takes the gateway out.
Requests are served. It holds until undrain, or until the process ends.

A drained gateway counts as forgotten, which is a warning: at once, or with --for
when that time is over.`,
		Example: "  card-node drain --for 30m",
	}
	cmd.Flags().String("for", "", "how long the work takes, at most 24h")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return changeNode(cmd, "/card-gateway/drain", adminapi.DrainRequest{For: cli.Flag(cmd, "for")})
	}
	return cmd
}

func changeNode(cmd *cobra.Command, path string, body any) error {
	return cli.Show(cmd, cli.Post(path, body), func(node adminapi.Node) error {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), nodeText(&node))
		return err
	})
}

// nodeText describes the state of a node in a line.
func nodeText(n *adminapi.Node) string {
	text := "in service"
	if n.Drained {
		text = "drained"
		if n.DrainedUntil != nil {
			text += " until " + cli.TimeOr(n.DrainedUntil, "")
		}
		text += ": /readyz answers 503, requests are served"
	}
	if n.DebugUntil != nil {
		text += "; logs each request until " + cli.TimeOr(n.DebugUntil, "")
	}
	return text
}
