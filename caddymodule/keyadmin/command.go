package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/caddymodule/cli"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/keys"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "card-keys",
		Usage: "create|import|list|show|update|disable|enable|unlock|rotate|delete|copy",
		Short: "Manages the API keys of a running Card Gateway",
		Long: `Manages the API keys of a running gateway, over Caddy's admin endpoint. A
change holds for the next request on every node.

The admin endpoint is found as by Caddy's own commands: --address, else the
configuration named by --config, else $CADDY_ADMIN, else localhost:2019.
Answers are tables, or with --json the JSON of the admin API.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, refuseUnknown
			addAdminFlags(cmd)
			cmd.AddCommand(createCommand(), importCommand(), listCommand(), showCommand(), updateCommand(),
				plainCommand("disable", "Refuses every further request with a key"),
				plainCommand("enable", "Takes back disable; a lock stays"),
				plainCommand("unlock", "Clears a key's lock and its count of failures; disabled stays"),
				rotateCommand(), deleteCommand(), copyCommand())
		},
	})
}

// refuseUnknown makes a mistyped subcommand fail; cobra would print the help
// and succeed.
func refuseUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return fmt.Errorf("there is no command card-keys %s; see card-keys --help", args[0])
}

func createCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create --tenant TENANT --scopes SCOPE,…", Args: cobra.NoArgs,
		Short: "Makes a key and shows its secret, once",
		Example: `  card-keys create --tenant acme --scopes customers:write,cards:* --description "back office"
  card-keys create --tenant acme --scopes '*' --mode test --expires-in 90d --limit 'issue_card=60/1m burst 10'`,
	}
	addFieldFlags(cmd)
	cmd.Flags().String("mode", "live", "live or test")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fields, err := fieldFlags(cmd)
		if err != nil {
			return err
		}
		fields["mode"] = cli.Flag(cmd, "mode")
		return makeKey(cmd, "/card-gateway/keys", fields)
	}
	return cmd
}

func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import ID --tenant TENANT --scopes SCOPE,…", Args: cli.Wants("ID"),
		Short: "Takes over a key of an earlier system",
		Long: `Takes over the id and the secret of a key of an earlier system. The secret is
read from --secret-file, or from standard input, never from the command line;
one line end after it is dropped.`,
		Example: `  card-keys import legacy-7731 --tenant acme --scopes 'cards:*' --secret-file ./legacy-7731.secret
  card-keys import legacy-7732 --tenant acme --scopes 'cards:*' < ./legacy-7732.secret`,
	}
	addFieldFlags(cmd)
	cmd.Flags().String("secret-file", "", "file that holds the secret (default: standard input)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		fields, err := fieldFlags(cmd)
		if err != nil {
			return err
		}
		secret, err := readImportedSecret(cmd)
		if err != nil {
			return err
		}
		fields["id"], fields["secret"] = args[0], secret
		return makeKey(cmd, "/card-gateway/keys/import", fields)
	}
	return cmd
}

func makeKey(cmd *cobra.Command, path string, fields map[string]any) error {
	var changed keys.Changed
	raw, err := callAdmin(cmd, http.MethodPost, path, fields, &changed)
	if err != nil {
		return err
	}
	return printChanged(cmd, raw, changed)
}

func listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short:   "Lists keys",
		Example: "  card-keys list --tenant acme --status locked",
	}
	cmd.Flags().String("tenant", "", "only keys of this tenant")
	cmd.Flags().String("status", "", "only keys that are "+strings.Join(keys.Statuses(), ", "))
	cmd.Flags().Int("limit", 0, "at most this many (default: all)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		limit, _ := cmd.Flags().GetInt("limit")
		views, err := listAll(cmd, limit)
		if err != nil {
			return err
		}
		if asJSON(cmd) {
			return printJSON(cmd, keyPage{Keys: views})
		}
		return printKeys(cmd, views)
	}
	return cmd
}

// listAll reads page after page, up to the limit; 0 means all.
func listAll(cmd *cobra.Command, limit int) ([]keys.View, error) {
	const page = 200
	views := []keys.View{}
	query := url.Values{"limit": {strconv.Itoa(page)}}
	for _, name := range []string{"tenant", "status"} {
		if value := cli.Flag(cmd, name); value != "" {
			query.Set(name, value)
		}
	}
	for {
		var answer keyPage
		if _, err := callAdmin(cmd, http.MethodGet, "/card-gateway/keys?"+query.Encode(), nil, &answer); err != nil {
			return nil, err
		}
		views = append(views, answer.Keys...)
		if limit > 0 && len(views) >= limit {
			return views[:limit], nil
		}
		if answer.Next == "" {
			return views, nil
		}
		query.Set("cursor", answer.Next)
	}
}

func showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Args: cli.Wants("ID"),
		Short: "Shows all there is to see of a key; never its secrets",
		RunE: func(cmd *cobra.Command, args []string) error {
			var view keys.View
			raw, err := callAdmin(cmd, http.MethodGet, keyPath(args[0], ""), nil, &view)
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				return printJSON(cmd, raw)
			}
			return printKey(cmd, view, "")
		},
	}
}

func updateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update ID", Args: cli.Wants("ID"),
		Short: "Changes what a key may do",
		Long: `Changes the fields that are named by flags and leaves all others. A list
replaces the list before. Take a setting back with --allowed-ips any,
--expires-at never, --variant none, --debug-until never, --limit NAME=none.`,
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
		return changeByCommand(cmd, http.MethodPatch, keyPath(args[0], ""), fields)
	}
	return cmd
}

// plainCommand makes a command that takes nothing but the id.
func plainCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID", Args: cli.Wants("ID"), Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeByCommand(cmd, http.MethodPost, keyPath(args[0], "/"+name), nil)
		},
	}
}

func rotateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate ID", Args: cli.Wants("ID"),
		Short: "Gives a key a new secret and shows it, once",
		Long: `Gives a key a new secret. The one before lives for the overlap, so that clients
can change over; two are live at most, so an older one ends at once.

What has ended is kept sealed for 30 days, at most two secrets. It verifies
nothing. A client that still signs with it is named in the log and does not lock
the key. --forget drops these secrets.`,
		Example: `  card-keys rotate ck_live_… --overlap 7d
  card-keys rotate ck_live_… --overlap 0            # the old secret leaked
  card-keys rotate ck_live_… --overlap 0 --forget   # and nothing of it may stay`,
	}
	cmd.Flags().String("overlap", "24h", "how long the old secret lives: 0 to 90d")
	cmd.Flags().Bool("forget", false, "keep no retired secret of the key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		forget, _ := cmd.Flags().GetBool("forget")
		how := map[string]any{"overlap": cli.Flag(cmd, "overlap"), "forget": forget}
		return changeByCommand(cmd, http.MethodPost, keyPath(args[0], "/rotate"), how)
	}
	return cmd
}

func changeByCommand(cmd *cobra.Command, method, path string, body map[string]any) error {
	var changed keys.Changed
	raw, err := callAdmin(cmd, method, path, body, &changed)
	if err != nil {
		return err
	}
	return printChanged(cmd, raw, changed)
}

func deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID --yes", Args: cli.Wants("ID"),
		Short: "Forgets a key for good; disable is the way that can be taken back",
	}
	cmd.Flags().Bool("yes", false, "really delete it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if yes, _ := cmd.Flags().GetBool("yes"); !yes {
			return fmt.Errorf("deleting %s cannot be taken back: say --yes to do it, or use `card-keys disable`", args[0])
		}
		var gone deletion
		raw, err := callAdmin(cmd, http.MethodDelete, keyPath(args[0], ""), nil, &gone)
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

func keyPath(id, rest string) string { return "/card-gateway/keys/" + url.PathEscape(id) + rest }

// callAdmin makes one call to the admin API, decodes its answer and returns it
// raw too.
func callAdmin(cmd *cobra.Command, method, path string, body map[string]any, into any) (json.RawMessage, error) {
	raw, err := askAdmin(cmd, method, path, body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("the admin endpoint answered something that is not of a Card Gateway: %w", err)
	}
	return raw, nil
}
