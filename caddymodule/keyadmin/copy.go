package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/card-gateway/card-gateway/caddymodule/cli"

	"github.com/card-gateway/card-gateway/keys"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/store/file"
)

// copyRequest is the body of a copy of an embedded store.
type copyRequest struct {
	// Dir is the directory of the store, a path on the gateway's machine.
	Dir string `json:"dir"`
}

// copyKeys copies the keys of an embedded store, such as when a gateway moves to
// Redis. The directory must not be in use.
func copyKeys(c *adminCall) (int, any, error) {
	var req copyRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	if !filepath.IsAbs(req.Dir) {
		return 0, nil, unasked{&keys.InvalidError{Field: "dir", Reason: "want the absolute path of the directory of an embedded store"}}
	}
	from, err := file.Open(req.Dir, file.Options{})
	if err != nil {
		return 0, nil, unasked{&keys.InvalidError{Field: "dir", Reason: err.Error()}}
	}
	defer func() { _ = from.Close() }()
	if records, _, err := from.List(c, "", 1); err != nil || len(records) == 0 {
		return 0, nil, unasked{&keys.InvalidError{Field: "dir", Reason: "holds no embedded store with keys"}}
	}
	if err := from.Start(c); err != nil {
		return 0, nil, unasked{&keys.InvalidError{Field: "dir", Reason: err.Error()}}
	}
	done, err := c.keys.Copy(c, from, c.by)
	if err != nil {
		return 0, nil, fmt.Errorf("%d keys were copied, then: %w; you can run the copy again", len(done.Copied), err)
	}
	return http.StatusOK, done, nil
}

func copyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "copy DIRECTORY", Args: cli.Wants("DIRECTORY"),
		Short: "Copies all keys of an embedded store, such as for a move to Redis",
		Long: `Copies all keys of an embedded store with their secrets and locks. First stop the
gateway that uses the directory. The running gateway reads the directory and must
have the same master key. Requests stamped before the copy, or up to
replay_floor_ahead after it, are refused, because the nonces of the embedded
store are not copied. Keys that exist already are skipped, so you can run the
copy again.`,
		Example: "  card-keys copy /var/lib/card-gateway/store",
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := filepath.Abs(args[0])
		if err != nil {
			return fmt.Errorf("directory %s: %w", args[0], err)
		}
		var done keys.Copy
		raw, err := callAdmin(cmd, adminRequest{http.MethodPost, "/card-gateway/keys/copy", map[string]any{"dir": dir}}, &done)
		if err != nil {
			return err
		}
		return printCopy(cmd, raw, done)
	}
	return cmd
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
	if len(done.Skipped) > 0 {
		return errNotAllCopied
	}
	return nil
}
