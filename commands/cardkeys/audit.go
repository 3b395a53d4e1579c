package cardkeys

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/commands/cli"
)

// errBroken means that the output names the fault.
var errBroken = errors.New("the audit record is not whole")

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Checks the audit record", RunE: cli.RefuseUnknown, Args: cobra.ArbitraryArgs}
	var from uint64
	verify := &cobra.Command{
		Use: "verify FILE…", Args: cobra.MinimumNArgs(1),
		Short: "Names the first line of the audit record that is missing or was changed",
		Long: `Checks the files of an audit record, without the gateway: that the numbers of
their lines have no gap, and that each line has the hash of the one before it. The
order of the files does not matter, and they may be compressed by gzip. The file
.head beside the audit file shows whether its end is missing. The record begins with
line 1, unless --from says which line is the oldest that was kept. Files of several
gateways may be named together.

A line that a crash has cut off is reported and is no fault. The exit status is 1
if a line is missing or was changed. Whoever can write the files can write a new
record with hashes that fit: compare the last hash with one that you have kept
elsewhere.`,
		Example: "  card-keys audit verify /var/log/card-gateway/audit.log*",
		RunE: func(cmd *cobra.Command, args []string) error {
			ended := working(cmd, func() string { return "checking the audit record" })
			report, err := auditfile.Verify(args, from)
			ended()
			if err != nil {
				return fmt.Errorf("checking the audit record: %w", err)
			}
			return printAudit(cmd, &report)
		},
	}
	verify.Flags().Uint64Var(&from, "from", 1, "number of the oldest line that was kept")
	cmd.AddCommand(verify)
	return cmd
}

func printAudit(cmd *cobra.Command, report *auditfile.Report) error {
	chains := append([]auditfile.Report{*report}, report.Others...)
	err := cli.PrintAnswer(cmd, report, func(out io.Writer) error {
		for i := range chains {
			printChain(out, &chains[i])
		}
		return nil
	})
	if err == nil && slices.ContainsFunc(chains, func(r auditfile.Report) bool { return r.Fault != "" }) {
		return errBroken
	}
	return err
}

func printChain(out io.Writer, report *auditfile.Report) {
	for _, at := range report.Torn {
		fmt.Fprintf(out, "%s was cut off by a crash\n", at)
	}
	if report.Fault != "" {
		fmt.Fprintln(out, report.Fault)
	}
	fmt.Fprintf(out, "checked %d lines in %d files, numbers %d to %d\nlast hash %s\n", report.Lines, len(report.Files), report.First, report.Last, report.Hash)
	if report.NoHead {
		fmt.Fprintln(out, "there is no .head: lines that are missing at the end are not noticed")
	}
}
