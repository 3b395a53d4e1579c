// Package cardkeys is the command card-keys: it manages the API keys of a running
// gateway over its admin API.
//
// Begin with command.go, which lists the commands below it. Those that read or write
// more than one key have files of their own: copy (also restore and drill), declared
// (export and apply), seal, and audit for the audit record. While they run, progress shows
// on a terminal how far they are.
package cardkeys

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/keys"
)

func init() {
	cli.Register(caddycmd.Command{
		Name:  "card-keys",
		Usage: "create|import|list|show|update|disable|enable|unlock|rotate|delete|seal|restore|copy|audit|export|apply|drill",
		Short: "Manages the API keys of a running Card Gateway",
		Long: `Manages the API keys of a running gateway, over Caddy's admin endpoint. A
change applies to the next request on every node.

The admin endpoint is found as by Caddy's own commands: --address, else the
configuration named by --config, else $CADDY_ADMIN, else localhost:2019. On TCP
it wants a token: --token-file, else $CARD_GATEWAY_TOKEN_FILE.
Answers are tables, or with --json the JSON of the admin API.

The exit status is 2 if no gateway answers or its store does not, 3 if there is no
such key, 4 if somebody else has changed the key meanwhile, and 1 after any other
error.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args, cmd.RunE = cobra.ArbitraryArgs, cli.RefuseUnknown
			cli.AddAdminFlags(cmd)
			cmd.AddCommand(createCommand(), importCommand(), listCommand(), showCommand(), updateCommand(),
				switchCommand("disable", "Refuses every further request with a key, or with all keys of a tenant", disableLong),
				switchCommand("enable", "Ends disable of a key, or of all keys of a tenant; does not clear a lock", enableLong),
				plainCommand("unlock", "Clears a key's lock and its count of failures; does not enable a disabled key"),
				rotateCommand(), deleteCommand(), sealCommand(), restoreCommand(), copyCommand(), auditCommand(), exportCommand(), applyCommand(), drillCommand())
			cli.ExitsBy(cmd, exitStatus)
		},
	})
}

// exitStatus returns the exit status after an error.
func exitStatus(err error) int {
	answer, ok := errors.AsType[*cli.AnswerError](err)
	switch {
	case !ok:
		return 1
	case answer.Status == 0, answer.Status >= http.StatusInternalServerError:
		return 2
	case answer.Status == http.StatusNotFound:
		return 3
	case answer.Status == http.StatusConflict, answer.Status == http.StatusPreconditionFailed:
		return 4
	default:
		return 1
	}
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
		return changeByCommand(cmd, cli.Post("/card-gateway/keys", fields))
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
		secret, err := cli.Secret(cmd, secretFromInput)
		if err != nil {
			return err
		}
		fields["id"], fields["secret"] = args[0], secret
		return changeByCommand(cmd, cli.Post("/card-gateway/keys/import", fields))
	}
	return cmd
}

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
		return changeByCommand(cmd, cli.Request{Method: http.MethodPatch, Path: keyPath(args[0], ""), Body: fields})
	}
	return cmd
}

// plainCommand returns a command that takes only the id of a key.
func plainCommand(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name + " ID", Args: cli.Wants("ID"), Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeByCommand(cmd, cli.Post(keyPath(args[0], "/"+name), nil))
		},
	}
}

// switchCommand returns the command disable or enable.
func switchCommand(name, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " ID | --tenant TENANT", Args: cobra.MaximumNArgs(1),
		Short: short, Long: long,
		Example: "  card-keys " + name + " ck_live_…\n  card-keys " + name + " --tenant acme",
	}
	cmd.Flags().String("tenant", "", name+" all keys of this tenant")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tenant := cli.Flag(cmd, "tenant")
		switch {
		case len(args) == 1 && tenant == "":
			return changeByCommand(cmd, cli.Post(keyPath(args[0], "/"+name), nil))
		case len(args) == 0 && tenant != "":
			return switchTenant(cmd, name)
		default:
			return errors.New("want the ID of a key, or --tenant")
		}
	}
	return cmd
}

const (
	disableLong = `Refuses every further request with a key. With --tenant all keys of the tenant
are disabled, also those that are locked or expired; when the command has succeeded,
none is left. A key whose record was forged is refused already and stays as it is.
One whose record cannot be read may be of the tenant, and is named. It fails if no
key has the tenant, such as one that is mistyped.`
	enableLong = `Ends what disable does. It ends no lock. With --tenant all keys of the tenant are
enabled, also those that were disabled for a reason of their own: see
card-keys list --tenant TENANT --status disabled before. A key whose record was
forged, or cannot be read, stays as it is.`
)

// switchTenant disables or enables keys until none is left that is not, because others
// may make keys meanwhile.
func switchTenant(cmd *cobra.Command, name string) error {
	disables, done := name == "disable", []keys.View{}
	var all []keys.View // of the tenant, and those that cannot be read
	for {
		var err error
		if all, err = listAll(cmd, 0); err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(all), func(v keys.View) bool {
			return v.Disabled == disables || v.Seal.State == keys.SealRefused
		})
		if len(left) == 0 {
			break
		}
		err = eachKey(cmd, len(left), func(i int) error {
			changed, _, err := change(cmd, cli.Post(keyPath(left[i].ID, "/"+name), nil))
			if err != nil {
				return fmt.Errorf("key %s is not %sd, after %d that are: %w; you can run the command again", left[i].ID, name, len(done), err)
			}
			done = append(done, changed.View)
			return nil
		})
		if err != nil {
			return err
		}
	}
	warnUnreadable(cmd, all)
	if !slices.ContainsFunc(all, func(v keys.View) bool { return v.Status != keys.StatusUnreadable }) {
		return fmt.Errorf("no key has the tenant %q", cli.Flag(cmd, "tenant"))
	}
	return cli.PrintAnswer(cmd, adminapi.KeyPage{Keys: done}, func(out io.Writer) error {
		line := fmt.Sprintf("%sd %d keys", name, len(done))
		switched := slices.DeleteFunc(all, func(v keys.View) bool { return v.Disabled != disables || v.Seal.State == keys.SealRefused })
		if before := len(switched) - len(done); before > 0 {
			line += fmt.Sprintf("; %d were %sd already", before, name)
		}
		_, err := fmt.Fprintln(out, line)
		return err
	})
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
		how := adminapi.RotateRequest{Overlap: new(cli.Flag(cmd, "overlap")), Forget: cli.IsSet(cmd, "forget")}
		return changeByCommand(cmd, cli.Post(keyPath(args[0], "/rotate"), how))
	}
	return cmd
}

func keyPath(id, rest string) string { return "/card-gateway/keys/" + url.PathEscape(id) + rest }

// change makes a call that changes a key, and warns of a change that could be lost.
func change(cmd *cobra.Command, req cli.Request) (changed keys.Changed, raw json.RawMessage, err error) {
	if raw, err = cli.Call(cmd, req, &changed); err == nil {
		warnUnreplicated(cmd, changed.Replicated)
	}
	return changed, raw, err
}

// changeByCommand changes a key and shows it, with its new secret if it got one.
func changeByCommand(cmd *cobra.Command, req cli.Request) error {
	changed, raw, err := change(cmd, req)
	if err != nil {
		return err
	}
	if changed.Status == keys.StatusExpired {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: the key has expired, and its requests are refused; see --expires-at of card-keys update")
	}
	return cli.PrintAnswer(cmd, raw, func(io.Writer) error {
		err := printKey(cmd, changed.View, changed.Secret)
		if err == nil && changed.Secret != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), "\nThe secret is shown this once and cannot be shown again: hand it to the client now."+
				"\nIt is text: sign with its characters as they are, although they could be read as base64 or hex.")
		}
		return err
	})
}

func deleteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete ID --yes", Args: cli.Wants("ID"),
		Short: "Deletes a key; unlike disable, this cannot be undone",
	}
	cmd.Flags().Bool("yes", false, "really delete it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cli.IsSet(cmd, "yes") {
			return fmt.Errorf("deleting %s cannot be undone: add --yes to delete it, or use `card-keys disable`", args[0])
		}
		return cli.Show(cmd, cli.Request{Method: http.MethodDelete, Path: keyPath(args[0], "")}, func(gone adminapi.Deletion) error {
			fmt.Fprintf(cmd.OutOrStdout(), "deleted %s\n", gone.ID)
			warnUnreplicated(cmd, gone.Replicated)
			return nil
		})
	}
	return cmd
}

func listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short:   "Lists keys",
		Example: "  card-keys list --tenant acme --status locked\n  card-keys list --status active --unused-for 90d",
	}
	cmd.Flags().String("tenant", "", "only keys of this tenant")
	cmd.Flags().String("status", "", "only keys that are "+strings.Join(keys.Statuses(), ", "))
	cmd.Flags().String("unused-for", "", "only keys with no accepted request, and no creation, for this long, as in 90d")
	cmd.Flags().Int("limit", 0, "at most this many (default: all)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		limit, _ := cmd.Flags().GetInt("limit")
		var unused time.Duration
		all := limit
		if text := cli.Flag(cmd, "unused-for"); text != "" {
			var err error
			if unused, err = caddy.ParseDuration(text); err != nil || unused <= 0 {
				return fmt.Errorf("--unused-for %s: want a duration such as 90d", text)
			}
			all = 0
		}
		views, err := listAll(cmd, all)
		if err != nil {
			return err
		}
		if unused > 0 {
			warnUnreadable(cmd, views)
			views = unusedSince(views, time.Now().Add(-unused))
			views = views[:min(cmp.Or(limit, len(views)), len(views))]
		}
		return cli.PrintAnswer(cmd, adminapi.KeyPage{Keys: views}, func(io.Writer) error { return printKeys(cmd, views) })
	}
	return cmd
}

// unusedSince returns the keys that were made before the moment, and of which no
// request was accepted since, as far as their record can be read.
func unusedSince(views []keys.View, since time.Time) []keys.View {
	return slices.DeleteFunc(views, func(v keys.View) bool {
		last := lastUsed(v)
		return v.Status == keys.StatusUnreadable || v.CreatedAt.After(since) || last != nil && last.After(since)
	})
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
	var read atomic.Int64
	defer working(cmd, func() string { return fmt.Sprintf("read %d keys", read.Load()) })()
	for {
		var answer adminapi.KeyPage
		if _, err := cli.Call(cmd, cli.Request{Path: "/card-gateway/keys?" + query.Encode()}, &answer); err != nil {
			return nil, err
		}
		views = append(views, answer.Keys...)
		read.Store(int64(len(views)))
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
		Short: "Shows everything about a key except its secrets",
		RunE: func(cmd *cobra.Command, args []string) error {
			return cli.Show(cmd, cli.Request{Path: keyPath(args[0], "")}, func(v keys.View) error { return printKey(cmd, v, "") })
		},
	}
}
