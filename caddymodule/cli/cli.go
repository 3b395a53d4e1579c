// Package cli holds functions that the commands of the gateway share.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/secret"
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

// Secret returns the signing secret in the file of the flag secret-file or else in
// CARD_SECRET, and warns of white space around it. It is "" if neither is given.
func Secret(cmd *cobra.Command) (text string, err error) {
	text, source := os.Getenv("CARD_SECRET"), "CARD_SECRET"
	if path := Flag(cmd, "secret-file"); path != "" {
		if text, err = secret.ReadFile(path); err != nil {
			return "", fmt.Errorf("reading the secret: %w", err)
		}
		source = path
	}
	WarnBlanks(cmd.ErrOrStderr(), source, text)
	return text, nil
}

// Exit returns an error that ends the command with a status from 1 on and prints
// nothing.
func Exit(cmd *cobra.Command, status int) error {
	cmd.SilenceErrors = true
	if status == 1 {
		return errors.New("the command failed")
	}
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, nil)
}
