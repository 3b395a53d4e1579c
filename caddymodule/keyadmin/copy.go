package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/store"

	"github.com/card-gateway/card-gateway/keys"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/store/file"
)

// copyRequest is the body of a copy: exactly one of its fields.
type copyRequest struct {
	// Dir is the directory of an embedded store, a path on the gateway's machine.
	Dir string `json:"dir"`
	// Store is the option store of another configuration, in JSON.
	Store json.RawMessage `json:"store"`
}

// copyKeys copies the keys of another store, such as when a gateway moves to
// Redis. No gateway may use the other store meanwhile.
func copyKeys(c *adminCall) (int, any, error) {
	var req copyRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	from, err := c.openSource(&req)
	if err != nil {
		return 0, nil, unasked{err}
	}
	defer func() { _ = from.Close() }()
	if page, err := from.List(c, "", 1); err == nil && len(page.Records) == 0 && len(page.Damaged) == 0 && page.Next == "" {
		return 0, nil, unasked{&keys.InvalidError{Reason: "the other store: " + errNoKeys.Error()}}
	}
	done, err := c.keys.Copy(c, from, c.by)
	if err != nil {
		return 0, nil, fmt.Errorf("%d keys were copied, then: %w; you can run the copy again", len(done.Copied), err)
	}
	return http.StatusOK, done, nil
}

// openSource opens and starts the store to copy from. An embedded store without
// keys is refused before the start, which would make it.
func (c *adminCall) openSource(req *copyRequest) (store.Backend, error) {
	var from store.Backend
	var err error
	field := "dir"
	switch {
	case (req.Dir == "") == (req.Store == nil):
		return nil, &keys.InvalidError{Reason: "give either dir or store"}
	case req.Store != nil:
		field = "store"
		from, err = c.gateway.OpenStore(req.Store)
	case !filepath.IsAbs(req.Dir):
		return nil, &keys.InvalidError{Field: "dir", Reason: "want the absolute path of the directory of an embedded store"}
	default:
		from, err = openEmbedded(req.Dir)
	}
	if err == nil {
		err = c.startSource(from)
		if err != nil {
			_ = from.Close()
		}
	}
	if err != nil {
		return nil, &keys.InvalidError{Field: field, Reason: err.Error()}
	}
	return from, nil
}

// openEmbedded opens an embedded store, which makes no directory.
func openEmbedded(dir string) (store.Backend, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("no such directory")
	}
	return file.Open(dir, file.Options{})
}

var errNoKeys = errors.New("holds no store with keys")

func (c *adminCall) startSource(from store.Backend) error {
	if local, ok := from.(store.LocalBackend); ok && local.Local() {
		if page, err := from.List(c, "", 1); err != nil || len(page.Records) == 0 {
			return errNoKeys
		}
	}
	return from.Start(c)
}

func copyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "copy DIRECTORY | --from CADDYFILE", Args: cobra.MaximumNArgs(1),
		Short: "Copies all keys of another store, such as for a move to Redis or back",
		Long: `Copies all keys of another store with their secrets and locks: of an embedded
store in a directory, or of the store that another configuration names, such as
the one of the gateway before the move. First stop all gateways that use the other
store. The running gateway reads it and must have the same master key. Passwords
that the configuration refers to are read by the running gateway.

Requests stamped before the copy, or up to replay_floor_ahead after it, are
refused, because nonces are not copied. Keys that exist already are skipped, so
you can run the copy again. It fails if a key was skipped for another reason.`,
		Example: `  card-keys copy /var/lib/card-gateway/store
  card-keys copy --from /etc/card-gateway/Caddyfile.before`,
	}
	cmd.Flags().String("from", "", "configuration whose store is copied")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := copySource(cli.Flag(cmd, "from"), args)
		if err != nil {
			return err
		}
		var done keys.Copy
		raw, err := callAdmin(cmd, adminRequest{method: http.MethodPost, path: "/card-gateway/keys/copy", body: body}, &done)
		if err != nil {
			return err
		}
		return printCopy(cmd, raw, done)
	}
	return cmd
}

// copySource returns the body of the call: the directory, or the option store of
// the configuration.
func copySource(from string, args []string) (map[string]any, error) {
	if (from == "") == (len(args) == 0) {
		return nil, errors.New("want the DIRECTORY of an embedded store, or --from and a configuration")
	}
	if from == "" {
		dir, err := filepath.Abs(args[0])
		if err != nil {
			return nil, fmt.Errorf("directory %s: %w", args[0], err)
		}
		return map[string]any{"dir": dir}, nil
	}
	adapter := "caddyfile"
	if filepath.Ext(from) == ".json" {
		adapter = ""
	}
	text, _, _, err := caddycmd.LoadConfig(from, adapter)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", from, err)
	}
	var config struct {
		Apps struct {
			Gateway struct {
				Store json.RawMessage `json:"store"`
			} `json:"card_gateway"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("reading %s: %w", from, err)
	}
	if config.Apps.Gateway.Store == nil {
		return nil, fmt.Errorf("%s names no store in its block card_gateway", from)
	}
	return map[string]any{"store": config.Apps.Gateway.Store}, nil
}

var errNotAllCopied = errors.New("not all keys were copied; the skipped ones are listed above")

func printCopy(cmd *cobra.Command, raw json.RawMessage, done keys.Copy) error {
	if asJSON(cmd) {
		if err := printJSON(cmd, raw); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "copied %d keys\n", len(done.Copied))
		for _, skipped := range done.Skipped {
			fmt.Fprintf(cmd.OutOrStdout(), "skipped %s: %s\n", skipped.ID, skipped.Reason)
		}
	}
	if slices.ContainsFunc(done.Skipped, func(s keys.SkippedCopy) bool { return !s.Exists }) {
		return errNotAllCopied
	}
	return nil
}
