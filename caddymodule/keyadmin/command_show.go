package keyadmin

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/keys"
)

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
		if _, err := callAdmin(cmd, adminRequest{method: http.MethodGet, path: "/card-gateway/keys?" + query.Encode()}, &answer); err != nil {
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
		Short: "Shows everything about a key except its secrets",
		RunE: func(cmd *cobra.Command, args []string) error {
			var view keys.View
			raw, err := callAdmin(cmd, adminRequest{method: http.MethodGet, path: keyPath(args[0], "")}, &view)
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
