package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/caddymodule/secret"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
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
func copyKeys(c *adminCall, req copyRequest) (any, error) {
	from, err := c.openSource(&req)
	if err != nil {
		return nil, earlyError{err}
	}
	defer func() { _ = from.Close() }()
	if page, err := from.List(c, "", 1); err == nil && len(page.Records) == 0 && len(page.Damaged) == 0 && page.Next == "" {
		return nil, earlyError{&fields.InvalidError{Reason: "the other store: " + errNoKeys.Error()}}
	}
	done, err := c.keys.Copy(c, from, c.by)
	if err != nil {
		return nil, fmt.Errorf("%d keys were copied, then: %w; you can run the copy again", len(done.Copied), err)
	}
	return done, nil
}

// openSource opens and starts the store to copy from. An embedded store without
// keys is refused before the start, which would make it.
func (c *adminCall) openSource(req *copyRequest) (store.Backend, error) {
	var from store.Backend
	var err error
	field := "dir"
	switch {
	case (req.Dir == "") == (req.Store == nil):
		return nil, &fields.InvalidError{Reason: "give either dir or store"}
	case req.Store != nil:
		field = "store"
		from, err = c.gateway.OpenStore(req.Store)
	case !filepath.IsAbs(req.Dir):
		return nil, &fields.InvalidError{Field: "dir", Reason: "want the absolute path of the directory of an embedded store"}
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
		return nil, &fields.InvalidError{Field: field, Reason: err.Error()}
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
		raw, err := callAdmin(cmd, post("/card-gateway/keys/copy", body), &done)
		if err != nil {
			return err
		}
		err = printAnswer(cmd, raw, func(out io.Writer) error {
			fmt.Fprintf(out, "copied %d keys\n", len(done.Copied))
			for _, skipped := range done.Skipped {
				fmt.Fprintf(out, "skipped %s: %s\n", skipped.ID, skipped.Reason)
			}
			return nil
		})
		if err == nil && slices.ContainsFunc(done.Skipped, func(s keys.KeyProblem) bool { return !s.Exists }) {
			return errNotAllCopied
		}
		return err
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
			Gateway struct{ Store json.RawMessage } `json:"card_gateway"`
		}
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

// restoreRequest is the body of a restore: where the backup is, as for a copy, and the
// digest of the record that is approved.
type restoreRequest struct {
	copyRequest
	Digest string `json:"digest"`
}

// restoreKey puts the record of a key back from a backup. Without a digest it changes
// nothing, and answers with the record in the backup and the digest to approve.
func restoreKey(c *adminCall, req restoreRequest) (any, error) {
	from, err := c.openSource(&req.copyRequest)
	if err != nil {
		return nil, earlyError{err}
	}
	defer func() { _ = from.Close() }()
	if req.Digest == "" {
		view, err := c.keys.Restorable(c, c.id, from)
		return view, err
	}
	return c.keys.Restore(c, c.id, keys.Restoring{From: from, Digest: req.Digest}, c.by)
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore ID {DIRECTORY | --from CADDYFILE}", Args: cobra.RangeArgs(1, 2),
		Short: "Puts the record of one key back from a backup of the store",
		Long: `Puts the record of one key back that is missing, cannot be read or was forged. It
comes from a backup of this store: a directory of the embedded store, or the store
that another configuration names, such as a Redis that was started with a copy of
the RDB file. No gateway may use the backup. The running gateway reads it.

The command prints what the record in the backup grants, and asks. Whatever was
changed after the backup is lost: a key that was disabled or locked works again, and
a secret that was rotated is valid again. So compare with the audit record first.

On Redis, requests stamped before that moment, or up to replay_floor_ahead after it,
are refused with 503, because the record that was lost may have known of nonces that
the backup does not know.`,
		Example: `  card-keys restore ck_live_… --from /etc/card-gateway/Caddyfile.backup
  card-keys restore ck_live_… /tmp/restored`,
	}
	cmd.Flags().String("from", "", "configuration whose store has the backup")
	cmd.Flags().Bool("dry-run", false, "only print the record in the backup")
	cmd.Flags().Bool("yes", false, "approve what is printed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		body, err := copySource(cli.Flag(cmd, "from"), args[1:])
		if err != nil {
			return err
		}
		return restoreByCommand(cmd, keyPath(args[0], "/restore"), body)
	}
	return cmd
}

var errNotRestored = errors.New("nothing was restored")

// restoreByCommand shows the record in the backup, asks, and sends the request again
// with the digest of what was shown.
func restoreByCommand(cmd *cobra.Command, path string, body map[string]any) error {
	dry, yes := isSet(cmd, "dry-run"), isSet(cmd, "yes")
	if asJSON(cmd) && !dry && !yes {
		return fmt.Errorf("%w: with --json nothing is printed to approve; use --dry-run first, then --yes", errNotRestored)
	}
	req := post(path, body)
	var view keys.View
	raw, err := callAdmin(cmd, req, &view)
	if err != nil {
		return err
	}
	switch {
	case !asJSON(cmd):
		err = printKey(cmd, view, "")
	case dry:
		err = printJSON(cmd, raw)
	}
	if err != nil {
		return err
	}
	if view.Seal.Problem != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s; look in the audit record for the changes since %s\n", view.Seal.Problem, timeOr(&view.UpdatedAt, ""))
	}
	if dry {
		return nil
	}
	if err := approve(cmd, "Put this record back, without any change that was made since? Type yes: ", errNotRestored); err != nil {
		return err
	}
	body["digest"] = view.Seal.Digest
	return changeByCommand(cmd, req)
}

func drillCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "drill DIRECTORY --master-key-file FILE", Args: cli.Wants("DIRECTORY"),
		Short: "Opens all keys of a restored embedded store, without a gateway",
		Long: `Opens the secrets of all keys in the directory of an embedded store, such as a
restored backup, with a master key, checks the seals of their records, and prints
how many keys it opened. It needs
no gateway and writes nothing. It fails if a key cannot be opened, or if there is
none.`,
		Example: "  card-keys drill /tmp/restored --master-key-file /etc/card-gateway/master.key",
	}
	cmd.Flags().String("master-key-file", "", "file of the master key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := cli.Flag(cmd, "master-key-file")
		if path == "" {
			return errors.New("name the master key by --master-key-file")
		}
		text, err := secret.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the master key: %w", err)
		}
		ring, err := keyring.Parse(text)
		if err != nil {
			return err
		}
		return drill(cmd, args[0], ring)
	}
	return cmd
}

func drill(cmd *cobra.Command, dir string, ring *keyring.Ring) error {
	backend, err := openEmbedded(dir)
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	defer func() { _ = backend.Close() }()
	done, err := keys.New(backend, ring, keys.Options{}).Drill(cmd.Context())
	if err != nil {
		return fmt.Errorf("reading the keys: %w", err)
	}
	err = printAnswer(cmd, done, func(out io.Writer) error {
		for _, failed := range done.Failed {
			fmt.Fprintf(out, "%s cannot be opened: %s\n", failed.ID, failed.Reason)
		}
		fmt.Fprintf(out, "opened %d of %d keys\n", done.Opened, done.Opened+len(done.Failed))
		if done.Unsealed > 0 {
			fmt.Fprintf(out, "%d of them have a record without a seal\n", done.Unsealed)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(done.Failed) > 0:
		return errors.New("not all keys can be opened with this master key")
	case done.Opened == 0:
		return fmt.Errorf("%s holds no keys", dir)
	}
	return nil
}
