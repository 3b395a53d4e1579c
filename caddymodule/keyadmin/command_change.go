package keyadmin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/keys"
)

func updateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update ID", Args: cli.Wants("ID"),
		Short: "Changes the fields of a key",
		Long: `Changes the fields of the given flags and keeps all others. A list replaces the
list before. To remove a setting, use --allowed-ips any, --expires-at never,
--variant none, --debug-until never, --limit NAME=none.`,
		Example: `  card-keys update ck_live_… --scopes cards:read,transactions:read
  card-keys update ck_live_… --limit 'issue_card=120/1m' --limit total=none --allowed-ips 192.0.2.0/24,2001:db8::7`,
	}
	addFieldFlags(cmd)
	cmd.Flags().String("revision", "", "only if the key still has this revision")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields, err := fieldFlags(cmd)
		if err != nil {
			return err
		}
		if len(fields) == 0 {
			return errors.New("nothing to change: name at least one field, such as --scopes; see --help")
		}
		return changeByCommand(cmd, adminRequest{method: http.MethodPatch, path: keyPath(args[0], ""), body: fields})
	}
	return cmd
}

// plainCommand returns a command that takes only the id of a key.
func plainCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID", Args: cli.Wants("ID"), Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeByCommand(cmd, adminRequest{method: http.MethodPost, path: keyPath(args[0], "/"+name)})
		},
	}
}

func disableCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "disable ID | --tenant TENANT", Args: cobra.MaximumNArgs(1),
		Short: "Refuses every further request with a key, or with all keys of a tenant",
		Long: `Refuses every further request with a key. With --tenant all keys of the tenant
are disabled, also those that are locked or expired; when the command has succeeded,
none is left. A key whose record was forged is refused already and stays as it is.
One whose record cannot be read may be of the tenant, and is named. It fails if no
key has the tenant, such as one that is mistyped.`,
		Example: "  card-keys disable ck_live_…\n  card-keys disable --tenant acme",
	}
	cmd.Flags().String("tenant", "", "disable all keys of this tenant")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tenant := cli.Flag(cmd, "tenant")
		switch {
		case len(args) == 1 && tenant == "":
			return changeByCommand(cmd, adminRequest{method: http.MethodPost, path: keyPath(args[0], "/disable")})
		case len(args) == 0 && tenant != "":
			return disableTenant(cmd)
		default:
			return errors.New("want the ID of a key, or --tenant")
		}
	}
	return cmd
}

// disableTenant disables keys until none is left that is not, because others may
// make keys meanwhile.
func disableTenant(cmd *cobra.Command) error {
	done := []keys.View{}
	var all []keys.View // of the tenant, and those that cannot be read
	for {
		var err error
		if all, err = listAll(cmd, 0); err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(all), func(v keys.View) bool { return v.Disabled || v.Seal.State == keys.SealRefused })
		if len(left) == 0 {
			break
		}
		for _, v := range left {
			var changed keys.Changed
			if _, err := callAdmin(cmd, adminRequest{method: http.MethodPost, path: keyPath(v.ID, "/disable")}, &changed); err != nil {
				return fmt.Errorf("key %s is not disabled, after %d that are: %w; you can run the command again", v.ID, len(done), err)
			}
			warnUnreplicated(cmd, changed.Replicated)
			done = append(done, changed.View)
		}
	}
	warnUnreadable(cmd, all)
	if !slices.ContainsFunc(all, func(v keys.View) bool { return v.Status != keys.StatusUnreadable }) {
		return fmt.Errorf("no key has the tenant %q", cli.Flag(cmd, "tenant"))
	}
	if asJSON(cmd) {
		return printJSON(cmd, keyPage{Keys: done})
	}
	line := fmt.Sprintf("disabled %d keys", len(done))
	disabled := slices.DeleteFunc(all, func(v keys.View) bool { return !v.Disabled })
	if before := len(disabled) - len(done); before > 0 {
		line += fmt.Sprintf("; %d were disabled already", before)
	}
	fmt.Fprintln(cmd.OutOrStdout(), line)
	return nil
}

func rotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate ID", Args: cli.Wants("ID"),
		Short: "Gives a key a new secret and shows it, once",
		Long: `Gives a key a new secret. The previous one lives for the overlap, so that clients
can change. At most two secrets are live: an older one ends at once.

Secrets that have ended are kept sealed for 30 days, at most two of them. They
verify nothing. The log names a client that still signs with one, and this client
does not lock the key. --forget drops these secrets.`,
		Example: `  card-keys rotate ck_live_… --overlap 7d
  card-keys rotate ck_live_… --overlap 0            # the old secret leaked
  card-keys rotate ck_live_… --overlap 0 --forget   # and must not be kept`,
	}
	cmd.Flags().String("overlap", "24h", "how long the old secret lives: 0 to 90d")
	cmd.Flags().Bool("forget", false, "keep no retired secret of the key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		forget, _ := cmd.Flags().GetBool("forget")
		how := map[string]any{"overlap": cli.Flag(cmd, "overlap"), "forget": forget}
		return changeByCommand(cmd, adminRequest{method: http.MethodPost, path: keyPath(args[0], "/rotate"), body: how})
	}
	return cmd
}

func changeByCommand(cmd *cobra.Command, req adminRequest) error {
	var changed keys.Changed
	raw, err := callAdmin(cmd, req, &changed)
	if err != nil {
		return err
	}
	return printChanged(cmd, raw, changed)
}

func deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID --yes", Args: cli.Wants("ID"),
		Short: "Deletes a key; unlike disable, this cannot be undone",
	}
	cmd.Flags().Bool("yes", false, "really delete it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if yes, _ := cmd.Flags().GetBool("yes"); !yes {
			return fmt.Errorf("deleting %s cannot be undone: add --yes to delete it, or use `card-keys disable`", args[0])
		}
		var gone deletion
		raw, err := callAdmin(cmd, adminRequest{method: http.MethodDelete, path: keyPath(args[0], "")}, &gone)
		if err != nil {
			return err
		}
		if asJSON(cmd) {
			return printJSON(cmd, raw)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", gone.ID)
		warnUnreplicated(cmd, gone.Replicated)
		return nil
	}
	return cmd
}
