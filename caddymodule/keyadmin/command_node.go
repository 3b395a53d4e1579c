package keyadmin

import (
	"fmt"
	"net/http"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "card-node",
		Usage: "drain|undrain|log-level",
		Short: "Takes a running Card Gateway out of service, or logs each request for a time",
		Long: `Changes one running gateway, over its admin endpoint, until its process ends.
The admin endpoint is found as by card-keys.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, refuseUnknown
			addAdminFlags(cmd)
			level := &cobra.Command{
				Use: "log-level debug|info", Args: cli.Wants("debug or info"),
				Short: "Logs a line for each request for a time, or ends that",
				Long: `With debug, the log has a line for each accepted request and for each refusal,
also in a flood, until the time of --for is over. With info that ends at once.`,
				Example: "  card-node log-level debug --for 15m",
			}
			level.Flags().String("for", "15m", "how long debug holds, at most 24h")
			level.RunE = func(cmd *cobra.Command, args []string) error {
				return changeNode(cmd, "/card-gateway/log-level", map[string]any{"level": args[0], "for": cli.Flag(cmd, "for")})
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
		var body map[string]any
		if span := cli.Flag(cmd, "for"); span != "" {
			body = map[string]any{"for": span}
		}
		return changeNode(cmd, "/card-gateway/drain", body)
	}
	return cmd
}

func changeNode(cmd *cobra.Command, path string, body map[string]any) error {
	var node Node
	raw, err := callAdmin(cmd, adminRequest{method: http.MethodPost, path: path, body: body}, &node)
	if err != nil {
		return err
	}
	if asJSON(cmd) {
		return printJSON(cmd, raw)
	}
	fmt.Fprintln(cmd.OutOrStdout(), node)
	return nil
}

// String describes the state in a line.
func (n Node) String() string {
	text := "in service"
	if n.Drained {
		text = "drained"
		if n.DrainedUntil != nil {
			text += " until " + timeOr(n.DrainedUntil, "")
		}
		text += ": /readyz answers 503, requests are served"
	}
	if n.DebugUntil != nil {
		text += "; logs each request until " + timeOr(n.DebugUntil, "")
	}
	return text
}
