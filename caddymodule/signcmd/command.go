// Package signcmd is the command card-sign: it signs one request and sends it,
// or prints it for curl.
package signcmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/caddymodule/secret"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/auth"
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

// stringToSign returns what was signed, in one line.
func (c *signedCall) stringToSign() string {
	h := c.request.Header
	text := auth.AppendStringToSign(nil, c.request.Method, c.target,
		h.Get(auth.HeaderTimestamp), h.Get(auth.HeaderNonce), h.Get(auth.HeaderBodyHash))
	return strings.ReplaceAll(string(text), "\n", `\n`)
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

// A signedCall is a request with its body, and the file of the body.
type signedCall struct {
	request  *http.Request
	target   string // path and query, as typed
	body     []byte
	hasBody  bool
	bodyFile string // "" unless the body was read from a file
}

func newSignedCall(cmd *cobra.Command, method, address string) (*signedCall, error) {
	base, target, err := splitURL(address)
	if err != nil {
		return nil, err
	}
	c := &signedCall{target: target, hasBody: cmd.Flags().Changed("data")}
	if c.body, c.bodyFile, err = bodyFlag(cmd, cli.Flag(cmd, "data")); err != nil {
		return nil, err
	}
	c.request, err = http.NewRequest(method, base.String(), nil)
	if err != nil {
		return nil, err
	}
	// net/http writes Opaque on the request line without changes.
	c.request.URL.Opaque = target
	if c.hasBody {
		c.request.Body = io.NopCloser(bytes.NewReader(c.body))
		c.request.ContentLength = int64(len(c.body))
		if len(c.body) == 0 {
			c.request.Body = http.NoBody
		} else {
			c.request.Header.Set("Content-Type", "application/json")
		}
	}
	c.request.Header.Set("User-Agent", "card-sign")
	headers, _ := cmd.Flags().GetStringArray("header")
	return c, c.setHeaders(headers)
}

// splitURL splits a URL into scheme and host, and the path and query as typed.
func splitURL(address string) (*url.URL, string, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, "", fmt.Errorf("%q cannot be signed: want http://HOST/PATH or https://HOST/PATH", address)
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	base, err := url.Parse(scheme + "://" + rest[:end])
	if err != nil || base.Host == "" || base.User != nil {
		return nil, "", fmt.Errorf("%q cannot be signed: want http://HOST/PATH or https://HOST/PATH, without a user name", address)
	}
	target := rest[end:]
	switch {
	case strings.Contains(target, "#"):
		return nil, "", errors.New("a # and what follows it are never sent: write %23 if it belongs to the path or query")
	case !strings.HasPrefix(target, "/"):
		target = "/" + target
	}
	return base, target, nil
}

// bodyFlag reads the body that --data names.
func bodyFlag(cmd *cobra.Command, data string) (body []byte, file string, err error) {
	path, isFile := strings.CutPrefix(data, "@")
	switch {
	case !isFile:
		return []byte(data), "", nil
	case path == "-":
		body, err = io.ReadAll(cmd.InOrStdin())
		path = ""
	default:
		body, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading the body: %w", err)
	}
	return body, path, nil
}

func (c *signedCall) setHeaders(lines []string) error {
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
		if !ok || name == "" {
			return fmt.Errorf("header %q: want 'Name: value'", line)
		}
		switch name {
		case auth.HeaderKeyID, auth.HeaderTimestamp, auth.HeaderNonce, auth.HeaderBodyHash, auth.HeaderSignature:
			return fmt.Errorf("header %s is made by signing", name)
		case "Content-Length", "Transfer-Encoding":
			return fmt.Errorf("header %s is made from the body", name)
		case "Host":
			c.request.Host = value
		case "Content-Type", "User-Agent":
			c.request.Header.Set(name, value)
		default:
			c.request.Header.Add(name, value)
		}
	}
	return nil
}
