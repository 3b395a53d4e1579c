package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/secret"
)

// AddAdminFlags adds the flags of a client of the admin API: where it finds the
// endpoint, who it is, and --json.
func AddAdminFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.String("address", "", "admin endpoint, such as localhost:2019 or unix//run/caddy/admin.sock")
	f.StringP("config", "c", "", "configuration file that names the admin endpoint")
	f.StringP("adapter", "a", "", "adapter of the configuration file")
	f.String("token-file", "", "file with the token for an admin endpoint on TCP (default: $CARD_GATEWAY_TOKEN_FILE)")
	f.String("actor", "", "the actor in the audit log (default: the user's name)")
	f.Bool("json", false, "print the JSON of the admin API")
}

// actor returns the actor for the audit log.
func actor(cmd *cobra.Command) string {
	name := cmp.Or(Flag(cmd, "actor"), os.Getenv("SUDO_USER"))
	if name == "" {
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
	}
	return cmp.Or(name, "unknown user")
}

// A Request is one call to the admin API.
type Request struct {
	Method, Path string // no method: GET
	Body         any    // nil: none
	Revision     string // that the key must have; empty: that of the flag --revision, if any
}

// Post returns a POST; a nil body is none.
func Post(path string, body any) Request {
	return Request{Method: http.MethodPost, Path: path, Body: body}
}

// Show makes one call to the admin API and prints its answer: as it is with
// --json, else by text.
func Show[T any](cmd *cobra.Command, req Request, text func(T) error) error {
	var answer T
	raw, err := Call(cmd, req, &answer)
	if err != nil {
		return err
	}
	return PrintAnswer(cmd, raw, func(io.Writer) error { return text(answer) })
}

// Call makes one call to the admin API, decodes its answer and returns it
// raw too.
func Call(cmd *cobra.Command, req Request, into any) (json.RawMessage, error) {
	address, err := caddycmd.DetermineAdminAPIAddress(Flag(cmd, "address"), nil, Flag(cmd, "config"), Flag(cmd, "adapter"))
	if err != nil {
		return nil, fmt.Errorf("finding the admin endpoint: %w", err)
	}
	return CallAt(cmd, address, req, into)
}

// CallAt is Call for the admin endpoint at an address.
func CallAt(cmd *cobra.Command, address string, req Request, into any) (json.RawMessage, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	headers := http.Header{adminapi.ActorHeader: {actor(cmd)}}
	if err := addToken(cmd, headers); err != nil {
		return nil, err
	}
	if revision := cmp.Or(req.Revision, Flag(cmd, "revision")); revision != "" {
		headers.Set("If-Match", `"`+revision+`"`)
	}
	var reader io.Reader
	if req.Body != nil {
		doc, err := json.Marshal(req.Body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		reader = bytes.NewReader(doc)
	}
	answer, err := caddycmd.AdminAPIRequest(address, req.Method, req.Path, headers, reader)
	if err != nil {
		return nil, adminCallError(address, err, startHint(UnitFiles()))
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the admin endpoint at %s: %w", address, err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("the answer of the admin endpoint is not that of a Card Gateway: %w", err)
	}
	return raw, nil
}

// addToken adds the token of the file that the flag or the environment names: the
// last word of its first line that is not empty and no comment. So the file may be
// the one of the option admin_token.
func addToken(cmd *cobra.Command, headers http.Header) error {
	path := cmp.Or(Flag(cmd, "token-file"), os.Getenv("CARD_GATEWAY_TOKEN_FILE"))
	if path == "" {
		return nil
	}
	text, err := secret.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the token: %w", err)
	}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			headers.Set("Authorization", "Bearer "+words[len(words)-1])
			return nil
		}
	}
	return fmt.Errorf("reading the token: %s holds none", path)
}

// checkAddress refuses the path of a socket that is not written as Caddy writes it,
// which Caddy would take for the name of a host.
func checkAddress(address string) error {
	path, found := strings.CutPrefix(address, "unix:")
	if !found && !strings.HasPrefix(address, "/") {
		return nil
	}
	return fmt.Errorf("the address %s is not one of an admin endpoint: for a socket write unix//%s", address, strings.TrimLeft(path, "/"))
}

// caddyStatus matches the error that Caddy returns for a status from 400.
var caddyStatus = regexp.MustCompile(`(?s)^caddy responded with error: HTTP (\d+): (.*)$`)

// adminCallError returns the error in terms of the gateway; start is how one is started
// here. Caddy returns its error as text only.
func adminCallError(address string, err error, start string) error {
	match := caddyStatus.FindStringSubmatch(err.Error())
	if match == nil {
		return &AnswerError{err: fmt.Errorf("no gateway answers at %s: %s (%w)", address, noAnswerHint(address, err.Error(), start), err)}
	}
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(match[2]), &answer) == nil && answer.Error != "" {
		status, _ := strconv.Atoi(match[1])
		return &AnswerError{Status: status, err: errors.New(answer.Error)}
	}
	if match[1] == "404" {
		return fmt.Errorf("the Caddy at %s has no Card Gateway in it: start it with a binary that `list-modules` shows admin.api.card_gateway for", address)
	}
	return fmt.Errorf("the admin endpoint at %s answered %s: %s", address, match[1], strings.TrimSpace(match[2]))
}

// An AnswerError is an answer of a gateway's admin endpoint that is no success.
type AnswerError struct {
	Status int // 0: no gateway answers
	err    error
}

func (e *AnswerError) Error() string { return e.err.Error() }
func (e *AnswerError) Unwrap() error { return e.err }

// startHint says how to start a gateway on a machine with the unit, or without one.
func startHint(unit []string) string {
	if len(unit) > 0 {
		return "start it with `systemctl start card-gateway`, and see `journalctl -u card-gateway -n 50`, or name the admin endpoint of another one with --address or --config"
	}
	return "start it with `card-gateway run --config Caddyfile`, or name its admin endpoint with --address or --config"
}

// noAnswerHint says what to do about a call that got no answer.
func noAnswerHint(address, text, start string) string {
	ends := func(cause error) bool { return strings.HasSuffix(text, cause.Error()) }
	place, err := caddy.ParseNetworkAddress(address)
	socket := err == nil && place.IsUnixNetwork()
	switch {
	case ends(syscall.EACCES):
		return "you may not open its socket; run the command as the gateway's user, or join the group of the socket"
	case socket && (ends(syscall.ECONNREFUSED) || ends(syscall.ENOENT)):
		return start + "; if it runs, another process took its socket or removed it, and a restart of the gateway brings it back"
	case ends(syscall.ECONNREFUSED):
		return start
	case ends(syscall.ETIMEDOUT), ends(os.ErrDeadlineExceeded):
		return "it does not answer in time"
	default:
		return "the call failed; name the admin endpoint of a gateway with --address or --config"
	}
}
