package keyadmin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/keys"
)

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
		unused, err := parseUnused(cli.Flag(cmd, "unused-for"))
		if err != nil {
			return err
		}
		all := limit
		if unused > 0 {
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
		if asJSON(cmd) {
			return printJSON(cmd, keyPage{Keys: views})
		}
		return printKeys(cmd, views)
	}
	return cmd
}

func parseUnused(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	span, err := caddy.ParseDuration(text)
	if err != nil || span <= 0 {
		return 0, fmt.Errorf("--unused-for %s: want a duration such as 90d", text)
	}
	return span, nil
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
