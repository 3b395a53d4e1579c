// Package cli holds functions that the commands of the gateway share.
package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Wants accepts exactly the named arguments. Its error names them; cobra's own
// error does not.
func Wants(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("want %s, got %d arguments; see %s --help", strings.Join(names, " and "), len(args), cmd.CommandPath())
	}
}

// Flag returns the text of a flag, or "" if there is no such flag.
func Flag(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// WarnBlanks warns of white space at the start or end of a secret, which counts as
// part of it. It never prints the secret.
func WarnBlanks(warnings io.Writer, source, secret string) {
	if strings.TrimSpace(secret) != secret {
		fmt.Fprintf(warnings, "warning: the secret in %s has white space at its start or end, which is taken as part of it\n", source)
	}
}
