package caddymodule

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// wants takes the named arguments and no others; cobra's own message would not
// say which are missing.
func wants(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("want %s, got %d arguments; see %s --help", strings.Join(names, " and "), len(args), cmd.CommandPath())
	}
}

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
	f.String("variant", "", "customer variant where the body does not tell: A, B, C or none")
	f.String("debug-until", "", "end of help with failing signatures, as in 2030-01-31T00:00:00Z, or never; kept, without effect yet")
	cmd.MarkFlagsMutuallyExclusive("expires-at", "expires-in")
}

// fieldFlags returns the fields whose flags were given, as the admin API wants
// them; nil takes a field back.
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
	if in := flag(cmd, "expires-in"); in != "" {
		d, err := caddy.ParseDuration(in)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("--expires-in %s: want a duration such as 90d or 12h", in)
		}
		fields["expires_at"] = time.Now().Add(d).UTC().Truncate(time.Second)
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
// gateway judges the limits themselves.
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

// maxSecretFile bounds how much is read where a secret is expected.
const maxSecretFile = 64 << 10

// readImportedSecret reads the secret from --secret-file or standard input,
// which a terminal does not show while it is typed.
func readImportedSecret(cmd *cobra.Command) (string, error) {
	if path := flag(cmd, "secret-file"); path != "" {
		return readSecretFile(cmd.ErrOrStderr(), path)
	}
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(cmd.ErrOrStderr(), "Secret (not shown): ")
		text, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(cmd.ErrOrStderr())
		return string(text), err
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("reading the secret from standard input: %w", err)
	}
	if len(text) == 0 {
		return "", errors.New("no secret on standard input: pipe it in, or name a file with --secret-file")
	}
	return trimSecret(cmd.ErrOrStderr(), "standard input", string(text)), nil
}

func readSecretFile(warnings io.Writer, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	return trimSecret(warnings, path, string(text)), nil
}

// trimSecret drops the one line end that editors and echo put after a secret.
// Further white space is taken as part of it, with a warning.
func trimSecret(warnings io.Writer, source, text string) string {
	secret := strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if strings.TrimSpace(secret) != secret {
		fmt.Fprintf(warnings, "warning: the secret in %s has white space at its start or end, which is taken as part of it\n", source)
	}
	return secret
}
