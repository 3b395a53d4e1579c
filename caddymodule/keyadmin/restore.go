package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/keys"
)

// restoreRequest is the body of a restore: where the backup is, as for a copy, and the
// digest of the record that is approved.
type restoreRequest struct {
	Dir    string          `json:"dir"`
	Store  json.RawMessage `json:"store"`
	Digest string          `json:"digest"`
}

// restoreKey puts the record of a key back from a backup. Without a digest it changes
// nothing, and answers with the record in the backup and the digest to approve.
func restoreKey(c *adminCall) (int, any, error) {
	var req restoreRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	from, err := c.openSource(&copyRequest{Dir: req.Dir, Store: req.Store})
	if err != nil {
		return 0, nil, unasked{err}
	}
	defer func() { _ = from.Close() }()
	if req.Digest == "" {
		view, err := c.keys.Restorable(c, c.id, from)
		return http.StatusOK, view, err
	}
	changed, err := c.keys.Restore(c, c.id, keys.Restoring{From: from, Digest: req.Digest}, c.by)
	return http.StatusOK, changed, err
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
	dry, yes := cli.Flag(cmd, "dry-run") == "true", cli.Flag(cmd, "yes") == "true"
	if asJSON(cmd) && !dry && !yes {
		return fmt.Errorf("%w: with --json nothing is printed to approve; use --dry-run first, then --yes", errNotRestored)
	}
	req := adminRequest{method: http.MethodPost, path: path, body: body}
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
