package keyadmin

import (
	"net/http"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/keys"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "card-keys",
		Usage: "create|import|list|show|update|disable|enable|unlock|rotate|delete|seal|restore|copy|audit|export|apply|drill",
		Short: "Manages the API keys of a running Card Gateway",
		Long: `Manages the API keys of a running gateway, over Caddy's admin endpoint. A
change applies to the next request on every node.

The admin endpoint is found as by Caddy's own commands: --address, else the
configuration named by --config, else $CADDY_ADMIN, else localhost:2019. On TCP
it wants a token: --token-file, else $CARD_GATEWAY_TOKEN_FILE.
Answers are tables, or with --json the JSON of the admin API.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, refuseUnknown
			addAdminFlags(cmd)
			cmd.AddCommand(createCommand(), importCommand(), listCommand(), showCommand(), updateCommand(),
				disableCommand(),
				plainCommand("enable", "Ends disable; does not clear a lock"),
				plainCommand("unlock", "Clears a key's lock and its count of failures; does not enable a disabled key"),
				rotateCommand(), deleteCommand(), sealCommand(), restoreCommand(), copyCommand(), auditCommand(), exportCommand(), applyCommand(), drillCommand())
		},
	})
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
		Short: "Imports a key of an earlier system",
		Long: `Imports the id and the secret of a key of an earlier system. The secret is
read from --secret-file, or from standard input, never from the command line.
One line end after it is dropped.`,
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
	raw, err := callAdmin(cmd, adminRequest{method: http.MethodPost, path: path, body: fields}, &changed)
	if err != nil {
		return err
	}
	return printChanged(cmd, raw, changed)
}
