// Package cardexplain is the command card-explain: it finds the mistake in the
// signature of a captured request.
//
// Begin with runExplain in command.go. capture and curl read the request in its forms,
// report finds the mistake and prints it.
package cardexplain

import (
	"fmt"
	"net/url"
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/commands/cli"
)

func init() {
	cli.Register(caddycmd.Command{
		Name:  "card-explain",
		Usage: "[FILE] [--signed FILE] [--request-id ID]",
		Short: "Says what is wrong with the signature of a captured request",
		Long: `Reads a captured request from the file, or from standard input, and says what
is wrong with it: the string to sign, the string that was signed instead, the
first byte in which they differ, the mistake and what to do. It needs no
gateway and sends nothing.

The request is raw HTTP, as it goes over the wire; the "> " lines of curl -v; a
curl command as it is pasted into a shell or into cmd of Windows; or a HAR file,
as browsers and proxies write it.

The secret comes from CARD_SECRET or the file named by --secret-file, of which
one line end is dropped. Without it the form of the headers and the body hash
are checked, and the signature is not. It is never printed.

With --request-id the command asks the admin endpoint of a gateway what it
remembers of its refusal of that request, and compares what arrived with the
captured request, if there is one.

The command fails with status 2 when it has found a mistake, and with 1 when it
could not look for one.`,
		CobraFunc: explainCommand,
	})
}

func explainCommand(cmd *cobra.Command) {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Example = `  card-explain request.txt
  pbpaste | card-explain
  card-explain session.har --entry 7
  card-explain --request-id 4f1c… --config /etc/caddy/Caddyfile`
	f := cmd.Flags()
	f.String("secret-file", "", "file that holds the secret (default: $CARD_SECRET)")
	f.String("signed", "", "file with the string that the client has signed, to compare it byte by byte")
	f.Int("entry", 0, "number of the entry of a HAR file, from 1 (default: the last one with X-Signature)")
	f.Bool("no-files", false, "read no file that a curl command names: for commands of strangers")
	f.String("request-id", "", "X-Request-Id of a refusal, to ask the gateway for")
	cli.AddAdminFlags(cmd)
	cmd.RunE = runExplain
}

func runExplain(cmd *cobra.Command, args []string) error {
	r := report{cmd: cmd, json: cli.IsSet(cmd, "json")}
	var err error
	id := cli.Flag(cmd, "request-id")
	if id != "" {
		r.refusal = new(adminapi.Refusal)
		if _, err = cli.Call(cmd, cli.Request{Path: "/card-gateway/refusals/" + url.PathEscape(id)}, r.refusal); err != nil {
			return err
		}
	}
	if id == "" || len(args) > 0 {
		text, err := cli.ReadInput(cmd, append(args, "-")[0], maxInput)
		if err != nil {
			return fmt.Errorf("reading the request: %w", err)
		}
		if r.capture, err = readCapture(cmd, text); err != nil {
			return err
		}
	}
	if r.secret, err = cli.Secret(cmd, cli.SigningSecret); err != nil {
		return err
	}
	if path := cli.Flag(cmd, "signed"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the string that was signed: %w", err)
		}
		r.signed = new(string(text))
	}
	if mistaken, err := r.print(); err != nil || !mistaken {
		return err
	}
	return cli.Exit(cmd, exitMistaken)
}

// exitMistaken is the exit status when a mistake was found.
const exitMistaken = 2

// maxInput is the largest captured request or HAR file, in bytes.
const maxInput = 64 << 20
