// Package cardsign is the command card-sign: it signs one request and sends it,
// or prints it for curl.
//
// Begin with runSign in command.go; call.go makes the request of the command line.
package cardsign

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/sign"
)

func init() {
	cli.Register(caddycmd.Command{
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
	text, err := cli.Secret(cmd, cli.SigningSecret)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, errors.New("no secret: set CARD_SECRET, or name a file with --secret-file")
	}
	return &sign.Signer{KeyID: id, Secret: text}, nil
}

// send sends the request and prints the answer. It prints redirects and does not
// follow them: a signature is for one URL. It fails with exitRefused for a status
// of 400 or more.
func (c *signedCall) send(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	insecure, _ := cmd.Flags().GetBool("insecure")
	timeout, _ := cmd.Flags().GetDuration("timeout")
	client := &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: tunnelOnly, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: insecure},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(c.request.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("sending the request to %s: %w", c.request.URL.Host, withoutURL(err))
	}
	defer answer.Body.Close()
	out := cmd.OutOrStdout()
	if include, _ := cmd.Flags().GetBool("include"); include {
		fmt.Fprintf(out, "%s %s\r\n", answer.Proto, answer.Status)
		if err := answer.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprint(out, "\r\n")
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", answer.Proto, answer.Status)
	}
	if _, err := io.Copy(out, answer.Body); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return cli.Exit(cmd, exitRefused)
	}
	return nil
}

// withoutURL unwraps an error of net/http, which would show the URL without its
// host, because the target is in Opaque.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}

// tunnelOnly uses the environment's proxy for https. A proxy for plain http
// rewrites the request line, which is signed.
func tunnelOnly(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// exitRefused is the exit status after an answer of 400 or more.
const exitRefused = 22
