package cardkeys

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/secret"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// addFieldFlags adds a flag for each field of a key that can be set.
func addFieldFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("tenant", "", "client organisation: 1 to 64 of A-Z a-z 0-9 . _ -")
	f.String("description", "", "free text")
	f.StringSlice("scopes", nil, "what the key may do, such as cards:read,cards:write or '*'")
	f.StringSlice("allowed-ips", nil, "addresses and CIDR blocks it may come from, or any")
	f.String("expires-at", "", "end, as in 2030-01-31T00:00:00Z, or never")
	f.String("expires-in", "", "end, counted from now, as in 90d")
	f.StringArray("limit", nil, "rate limit, as in 'issue_card=60/1m burst 10' or 'total=10/1s until 2030-01-31T00:00:00Z' (repeatable)")
	f.String("variant", "", "customer variant if the body does not show it: A, B, C or none")
	f.String("debug-until", "", "until when answers say what was wrong with a signature, at most 24h ahead, or never; answers to test keys always do")
	f.String("debug-for", "", "the same, counted from now, as in 1h")
	cmd.MarkFlagsMutuallyExclusive("expires-at", "expires-in")
	cmd.MarkFlagsMutuallyExclusive("debug-until", "debug-for")
}

// fieldFlags returns the fields whose flags were given, in the form of the admin
// API; nil removes a value.
func fieldFlags(cmd *cobra.Command) (map[string]any, error) {
	fields := make(map[string]any)
	text := func(flagName, field, none string) {
		if f := cmd.Flags().Lookup(flagName); f.Changed {
			fields[field] = f.Value.String()
			if none != "" && f.Value.String() == none {
				fields[field] = nil
			}
		}
	}
	text("tenant", "tenant", "")
	text("description", "description", "")
	text("expires-at", "expires_at", "never")
	text("variant", "customer_variant", "none")
	text("debug-until", "debug_until", "never")
	if cmd.Flags().Changed("scopes") {
		fields["scopes"], _ = cmd.Flags().GetStringSlice("scopes")
	}
	if cmd.Flags().Changed("allowed-ips") {
		addresses, _ := cmd.Flags().GetStringSlice("allowed-ips")
		fields["allowed_ips"] = addresses
		if len(addresses) == 1 && addresses[0] == "any" {
			fields["allowed_ips"] = nil
		}
	}
	for _, span := range []struct{ flag, field string }{{"expires-in", "expires_at"}, {"debug-for", "debug_until"}} {
		in := cli.Flag(cmd, span.flag)
		if in == "" {
			continue
		}
		d, err := caddy.ParseDuration(in)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("--%s %s: want a duration such as 90d or 12h", span.flag, in)
		}
		fields[span.field] = time.Now().Add(d).UTC().Truncate(time.Second)
	}
	limits, _ := cmd.Flags().GetStringArray("limit")
	if len(limits) > 0 {
		parsed, err := limitFlags(limits)
		if err != nil {
			return nil, err
		}
		fields["limits"] = parsed
	}
	return fields, nil
}

// limitFlags reads `NAME=LIMIT`, `NAME=LIMIT until TIME` and `NAME=none`. The
// gateway checks the limits.
func limitFlags(flags []string) (map[string]any, error) {
	limits := make(map[string]any)
	for _, text := range flags {
		name, limit, ok := strings.Cut(text, "=")
		name, limit = strings.TrimSpace(name), strings.TrimSpace(limit)
		if !ok || name == "" || limit == "" {
			return nil, fmt.Errorf("--limit %q: want NAME=LIMIT, as in 'issue_card=60/1m burst 10', or NAME=none", text)
		}
		if _, twice := limits[name]; twice {
			return nil, fmt.Errorf("--limit %q: %s has a limit already", text, name)
		}
		limits[name] = limit
		if limit == "none" {
			limits[name] = nil
		} else if rate, until, ok := strings.Cut(limit, " until "); ok {
			limits[name] = map[string]any{"limit": strings.TrimSpace(rate), "until": strings.TrimSpace(until)}
		}
	}
	return limits, nil
}

// secretFromInput returns the secret from standard input, which a terminal does not show
// while it is typed, and the name of its source.
func secretFromInput(cmd *cobra.Command) (text, source string, err error) {
	in := cmd.InOrStdin()
	if f, isFile := in.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(cmd.ErrOrStderr(), "Secret (not shown): ")
		typed, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(typed), "what was typed", err
	}
	text, err = secret.ReadFrom(in, "standard input")
	if errors.Is(err, secret.ErrEmpty) {
		err = errors.New("no secret on standard input: pipe it in, or name a file with --secret-file")
	}
	return text, "standard input", err
}
