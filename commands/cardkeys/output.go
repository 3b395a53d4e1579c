package cardkeys

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/keys"
)

func warnUnreplicated(cmd *cobra.Command, replicated *bool) {
	if replicated != nil && !*replicated {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: no replica of the store has acknowledged the change yet; a failover now could lose it")
	}
}

// sealText returns the state of the seal of a record.
func sealText(s *keys.SealView) string {
	switch s.State {
	case keys.SealSealed:
		return fmt.Sprintf("sealed, document version %d", s.DocumentVersion)
	case keys.SealRefused:
		return fmt.Sprintf("REFUSED: %s: %s", s.Field, s.Problem)
	case "": // a gateway of an earlier version
		return "-"
	default:
		return s.State
	}
}

// printKey shows one key, a line for each field.
func printKey(cmd *cobra.Command, v keys.View, secret string) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	row := func(name, value string) { fmt.Fprintf(w, "%s\t%s\n", name, printable(value)) }
	row("id", v.ID)
	if v.Status == keys.StatusUnreadable {
		row("status", v.Status)
		row("seal", sealText(&v.Seal))
		return w.Flush()
	}
	if secret != "" {
		row("secret", secret)
	}
	row("tenant", v.Tenant)
	row("description", cmp.Or(v.Description, "-"))
	row("status", v.Status)
	row("mode", string(v.Mode))
	row("scopes", strings.Join(v.Scopes, " "))
	row("allowed ips", cmp.Or(strings.Join(v.AllowedIPs, " "), "any"))
	row("expires at", cli.TimeOr(v.ExpiresAt, "never"))
	for i, name := range slices.Sorted(maps.Keys(v.Limits)) {
		title := "limits"
		if i > 0 {
			title = ""
		}
		row(title, name+" "+limitText(v.Limits[name]))
	}
	if v.CustomerVariant != nil {
		row("customer variant", *v.CustomerVariant)
	}
	if v.DebugUntil != nil {
		row("debug until", cli.TimeOr(v.DebugUntil, ""))
	}
	row("seal", sealText(&v.Seal))
	row("failures", fmt.Sprint(v.Failures))
	if v.Lock != nil {
		until := v.Lock.Until
		row("locked", fmt.Sprintf("at %s after %d failures, until %s", cli.TimeOr(&v.Lock.At, ""), v.Lock.Failures, cli.TimeOr(&until, "it is unlocked")))
	}
	secretRows(&v, row)
	row("created at", cli.TimeOr(&v.CreatedAt, ""))
	row("updated at", cli.TimeOr(&v.UpdatedAt, ""))
	row("revision", v.Revision)
	return w.Flush()
}

// secretRows shows the times of the secrets of a key.
func secretRows(v *keys.View, row func(name, value string)) {
	for _, kind := range []struct {
		name, ends string
		secrets    []keys.SecretView
	}{{"secret", "ends", v.Secrets}, {"retired", "ended", v.RetiredSecrets}} {
		for _, s := range kind.secrets {
			row(fmt.Sprintf("%s %d", kind.name, s.Version), fmt.Sprintf("created %s, %s %s, last used %s",
				cli.TimeOr(&s.CreatedAt, ""), kind.ends, cli.TimeOr(s.ExpiresAt, "never"), cli.TimeOr(s.LastUsedAt, "never")))
		}
	}
}

// printKeys shows a table, a line for each key.
func printKeys(cmd *cobra.Command, views []keys.View) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tSTATUS\tEXPIRES\tLAST USED\tFAILURES\tSCOPES\tDESCRIPTION")
	for _, v := range views {
		if v.Status == keys.StatusUnreadable {
			fmt.Fprintf(w, "%s\t-\t%s\t-\t-\t-\t-\t-\n", printable(v.ID), v.Status)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printable(v.ID), printable(v.Tenant), v.Status, cli.TimeOr(v.ExpiresAt, "never"),
			cli.TimeOr(lastUsed(v), "never"), v.Failures, printable(strings.Join(v.Scopes, " ")), cmp.Or(printable(v.Description), "-"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	warnUnreadable(cmd, views)
	if len(views) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no such keys")
	}
	return nil
}

// warnUnreadable names the keys whose record cannot be read, and what to do.
func warnUnreadable(cmd *cobra.Command, views []keys.View) {
	for _, v := range views {
		if v.Status == keys.StatusUnreadable {
			fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s is refused: %s: %s\n", printable(v.ID), v.Seal.Field, printable(v.Seal.Problem))
		}
	}
}

// printable returns the text as a terminal may have it: a record that was forged can hold
// anything.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// lastUsed returns when a request was last accepted, with any secret of the key
// that is still known.
func lastUsed(v keys.View) *time.Time {
	var last *time.Time
	for _, s := range slices.Concat(v.Secrets, v.RetiredSecrets) {
		if s.LastUsedAt != nil && (last == nil || s.LastUsedAt.After(*last)) {
			last = s.LastUsedAt
		}
	}
	return last
}

// limitText shows a limit as it is typed after --limit NAME=.
func limitText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var limit struct{ Limit, Until string }
	if json.Unmarshal(raw, &limit) == nil && limit.Limit != "" {
		if limit.Until == "" {
			return limit.Limit
		}
		return limit.Limit + " until " + limit.Until
	}
	return string(raw)
}
