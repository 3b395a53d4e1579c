package cardkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/secret"
	"github.com/card-gateway/card-gateway/store/file"
)

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
		ended := working(cmd, func() string { return "the gateway copies the keys" })
		raw, err := cli.Call(cmd, cli.Post("/card-gateway/keys/copy", body), &done)
		ended()
		if err != nil {
			return err
		}
		err = cli.PrintAnswer(cmd, raw, func(out io.Writer) error {
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
func copySource(from string, args []string) (source adminapi.CopyRequest, err error) {
	if (from == "") == (len(args) == 0) {
		return source, errors.New("want the DIRECTORY of an embedded store, or --from and a configuration")
	}
	if from == "" {
		dir, err := filepath.Abs(args[0])
		if err != nil {
			return source, fmt.Errorf("directory %s: %w", args[0], err)
		}
		source.Dir = dir
		return source, nil
	}
	adapter := "caddyfile"
	if filepath.Ext(from) == ".json" {
		adapter = ""
	}
	text, _, _, err := caddycmd.LoadConfig(from, adapter)
	if err != nil {
		return source, fmt.Errorf("reading %s: %w", from, err)
	}
	var config struct {
		Apps struct {
			Gateway struct{ Store json.RawMessage } `json:"card_gateway"`
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return source, fmt.Errorf("reading %s: %w", from, err)
	}
	if config.Apps.Gateway.Store == nil {
		return source, fmt.Errorf("%s names no store in its block card_gateway", from)
	}
	source.Store = config.Apps.Gateway.Store
	return source, nil
}

var errNotAllCopied = errors.New("not all keys were copied; the skipped ones are listed above")

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
		from, err := copySource(cli.Flag(cmd, "from"), args[1:])
		if err != nil {
			return err
		}
		return restoreByCommand(cmd, keyPath(args[0], "/restore"), adminapi.RestoreRequest{CopyRequest: from})
	}
	return cmd
}

var errNotRestored = errors.New("nothing was restored")

// restoreByCommand shows the record in the backup, asks, and sends the request again
// with the digest of what was shown.
func restoreByCommand(cmd *cobra.Command, path string, body adminapi.RestoreRequest) error {
	dry, yes := cli.IsSet(cmd, "dry-run"), cli.IsSet(cmd, "yes")
	if cli.IsSet(cmd, "json") && !dry && !yes {
		return fmt.Errorf("%w: with --json nothing is printed to approve; use --dry-run first, then --yes", errNotRestored)
	}
	var view keys.View
	raw, err := cli.Call(cmd, cli.Post(path, body), &view)
	if err != nil {
		return err
	}
	switch {
	case !cli.IsSet(cmd, "json"):
		err = printKey(cmd, view, "")
	case dry:
		err = cli.PrintJSON(cmd, raw)
	}
	if err != nil {
		return err
	}
	if view.Seal.Problem != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s; look in the audit record for the changes since %s\n", view.Seal.Problem, cli.TimeOr(&view.UpdatedAt, ""))
	}
	if dry {
		return nil
	}
	if err := approve(cmd, "Put this record back, without any change that was made since? Type yes: ", errNotRestored); err != nil {
		return err
	}
	body.Digest = view.Seal.Digest
	return changeByCommand(cmd, cli.Post(path, body))
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
	backend, err := file.OpenExisting(dir)
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	defer func() { _ = backend.Close() }()
	done, err := keys.New(backend, ring, keys.Options{}).Drill(cmd.Context())
	if err != nil {
		return fmt.Errorf("reading the keys: %w", err)
	}
	err = cli.PrintAnswer(cmd, done, func(out io.Writer) error {
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
