// Package signcmd is the command card-sign: it signs one request and sends it,
// or prints it for curl.
package signcmd

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/caddymodule/secret"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/sign"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "card-sign",
		Usage: "METHOD URL [-d DATA|@FILE] [-H 'Name: value']",
		Short: "Signs a request to a Card Gateway and sends it, or prints it for curl",
		Long: `Signs a request and sends it. The path and query are signed and sent exactly as
they are typed. The key comes from the environment, never from the command
line: the id from CARD_KEY_ID, the secret from CARD_SECRET or the file named by
--secret-file, of which one line end is dropped.

The body of the answer goes to standard output, its status to standard error.
The command fails with status 22, as curl --fail does, when the answer's status
is 400 or more.`,
		CobraFunc: signCommand,
	})
}

func signCommand(cmd *cobra.Command) {
	cmd.Args = cli.Wants("METHOD", "URL")
	cmd.Example = `  card-sign GET 'http://localhost:8080/api/v1/cards/4e0f…/balance'
  card-sign POST http://localhost:8080/api/v1/cards -d '{"customerId":"…","productId":"…","currency":"USD"}'
  card-sign POST http://localhost:8080/api/v1/cards -d @card.json --curl`
	f := cmd.Flags()
	f.StringP("data", "d", "", "body: text, @FILE, or @- for standard input; sent without changes")
	f.StringArrayP("header", "H", nil, "further header, as in 'Accept: application/json' (repeatable)")
	f.BoolP("include", "i", false, "print the answer's status line and headers before its body")
	f.BoolP("insecure", "k", false, "accept any TLS certificate, such as that of a local test")
	f.BoolP("verbose", "v", false, "print the string to sign to standard error, with \\n for its line feeds")
	f.Bool("curl", false, "print a curl command instead of sending; it works once, within five minutes")
	f.String("secret-file", "", "file that holds the secret (default: $CARD_SECRET)")
	f.Duration("timeout", time.Minute, "how long to wait for the answer")
	cmd.RunE = runSign
}

func runSign(cmd *cobra.Command, args []string) error {
	signer, err := signerFor(cmd)
	if err != nil {
		return err
	}
	call, err := newSignedCall(cmd, args[0], args[1])
	if err != nil {
		return err
	}
	if err := signer.Sign(call.request, call.body); err != nil {
		return err
	}
	if verbose, _ := cmd.Flags().GetBool("verbose"); verbose {
		fmt.Fprintln(cmd.ErrOrStderr(), "string to sign:", call.stringToSign())
	}
	if curl, _ := cmd.Flags().GetBool("curl"); curl {
		line, err := call.curl()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), line)
		return err
	}
	return call.send(cmd)
}

// signerFor reads the key from the environment, and the secret from there or a
// file.
func signerFor(cmd *cobra.Command) (*sign.Signer, error) {
	id := os.Getenv("CARD_KEY_ID")
	if id == "" {
		return nil, errors.New("no key id: set CARD_KEY_ID to the id of the key, such as ck_test_…")
	}
	path := cli.Flag(cmd, "secret-file")
	text, source := os.Getenv("CARD_SECRET"), "CARD_SECRET"
	if path != "" {
		var err error
		if text, err = secret.ReadFile(path); err != nil {
			return nil, fmt.Errorf("reading the secret: %w", err)
		}
		source = path
	}
	if text == "" {
		return nil, errors.New("no secret: set CARD_SECRET, or name a file with --secret-file")
	}
	cli.WarnBlanks(cmd.ErrOrStderr(), source, text)
	return &sign.Signer{KeyID: id, Secret: text}, nil
}
