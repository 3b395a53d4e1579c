package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2"
)

// checkAddress refuses the path of a socket that is not written as Caddy writes it,
// which Caddy would take for the name of a host.
func checkAddress(address string) error {
	path, found := strings.CutPrefix(address, "unix:")
	if !found && !strings.HasPrefix(address, "/") {
		return nil
	}
	return fmt.Errorf("the address %s is not one of an admin endpoint: for a socket write unix//%s", address, strings.TrimLeft(path, "/"))
}

// adminAnswered matches the error that Caddy returns for a status from 400.
var adminAnswered = regexp.MustCompile(`(?s)^caddy responded with error: HTTP (\d+): (.*)$`)

// adminCallError returns the error in terms of the gateway. Caddy returns its
// error as text only.
func adminCallError(address string, err error) error {
	match := adminAnswered.FindStringSubmatch(err.Error())
	if match == nil {
		return fmt.Errorf("no gateway answers at %s: %s (%w)", address, unanswered(address, err.Error()), err)
	}
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal([]byte(match[2]), &answer) == nil && answer.Error != "" {
		return errors.New(answer.Error)
	}
	if match[1] == "404" {
		return fmt.Errorf("the Caddy at %s has no Card Gateway in it: start it with a binary that `list-modules` shows admin.api.card_gateway for", address)
	}
	return fmt.Errorf("the admin endpoint at %s answered %s: %s", address, match[1], strings.TrimSpace(match[2]))
}

// unanswered says what to do about a call that got no answer.
func unanswered(address, text string) string {
	ends := func(cause error) bool { return strings.HasSuffix(text, cause.Error()) }
	const start = "start it with `card-gateway run --config Caddyfile`, or name its admin endpoint with --address or --config"
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
