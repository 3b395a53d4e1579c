// Package cli has what the commands of the gateway share: flags, arguments, secrets,
// output and exit statuses here, and the client of the admin API in client.go.
//
// Begin with client, if a command asks a gateway.
package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/card-gateway/card-gateway/secret"
)

// Register registers a command. A flag of it that is given twice is an error, unless it
// takes a list: one of the values would be lost without a word.
func Register(command caddycmd.Command) {
	build := command.CobraFunc
	command.CobraFunc = func(cmd *cobra.Command) {
		build(cmd)
		takeOnce(cmd)
		cmd.SetHelpTemplate(help) // Caddy's names Caddy's documents
	}
	caddycmd.RegisterCommand(command)
}

const help = `{{with or .Long .Short}}{{. | trimTrailingWhitespaces}}

{{end}}{{.UsageString}}
Full documentation is available at:
https://github.com/card-gateway/card-gateway/tree/main/docs
`

func takeOnce(cmd *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, list := f.Value.(pflag.SliceValue); !list {
				f.Value = &once{Value: f.Value}
			}
		})
	}
	for _, sub := range cmd.Commands() {
		takeOnce(sub)
	}
}

// once is the value of a flag that is given once.
type once struct {
	pflag.Value
	given bool
}

func (o *once) Set(text string) error {
	if o.given {
		return errors.New("it is given a second time; give it once")
	}
	o.given = true
	return o.Value.Set(text)
}

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

// IsSet reports whether a flag without a value was given.
func IsSet(cmd *cobra.Command, name string) bool { return Flag(cmd, name) == "true" }

// RefuseUnknown makes a mistyped subcommand fail; cobra would print the help
// and succeed.
func RefuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	_, name, _ := strings.Cut(cmd.CommandPath(), " ") // without that of the binary
	return fmt.Errorf("there is no command %s %s; see %s --help", name, args[0], name)
}

// Secret returns the secret in the file of the flag secret-file, or else what
// otherwise returns with the name of its source. It warns of white space at the
// start or end, which counts as part of the secret, and never prints it.
func Secret(cmd *cobra.Command, otherwise func(*cobra.Command) (text, source string, err error)) (text string, err error) {
	source := Flag(cmd, "secret-file")
	if source != "" {
		text, err = secret.ReadFile(source)
	} else {
		text, source, err = otherwise(cmd)
	}
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	if strings.TrimSpace(text) != text {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: the secret in %s has white space at its start or end, which is taken as part of it\n", source)
	}
	return text, nil
}

// SigningSecret returns the secret in CARD_SECRET, for [Secret]; "" if it is not set.
func SigningSecret(*cobra.Command) (text, source string, err error) {
	return os.Getenv("CARD_SECRET"), "CARD_SECRET", nil
}

// ReadInput returns a file, or standard input for the path -. It fails if there are
// more than most bytes.
func ReadInput(cmd *cobra.Command, path string, most int64) ([]byte, error) {
	from := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it is larger than %d MiB", most>>20)
	}
	return text, err
}

// PrintJSON prints a value as JSON for a reader.
func PrintJSON(cmd *cobra.Command, value any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// PrintAnswer prints a value: as JSON with --json, else by text.
func PrintAnswer(cmd *cobra.Command, value any, text func(out io.Writer) error) error {
	if IsSet(cmd, "json") {
		return PrintJSON(cmd, value)
	}
	return text(cmd.OutOrStdout())
}

// TimeOr returns a time as it is printed; none for nil and for the zero time.
func TimeOr(t *time.Time, none string) string {
	if t == nil || t.IsZero() {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}

// ExitsBy lets the commands below cmd print their errors and end with the status of each.
func ExitsBy(cmd *cobra.Command, status func(error) int) {
	for _, sub := range cmd.Commands() {
		ExitsBy(sub, status)
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if err == nil || cmd.SilenceErrors || status(err) == 1 {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "Error:", err)
			return Exit(cmd, status(err))
		}
	}
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
