package keyadmin

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/keys"
)

func exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export", Args: cobra.NoArgs,
		Short: "Prints what operators have set of all keys, without secrets, for apply",
		Long: `Prints, as JSON, what operators have set of all keys: tenant, description, scopes,
addresses, end, disabled, limits, customer variant. It has no secrets, and none of
what changes by itself, so it can be kept under version control.`,
		Example: "  card-keys export > keys.json",
	}
	cmd.Flags().String("tenant", "", "only keys of this tenant")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		views, err := listAll(cmd, 0)
		if err != nil {
			return err
		}
		views = slices.DeleteFunc(views, func(v keys.View) bool {
			refused := v.Seal.State == keys.SealRefused
			if refused {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s is left out, because its record was forged: %s: %s\n", v.ID, v.Seal.Field, v.Seal.Problem)
			}
			return refused
		})
		return printJSON(cmd, declareAll(views))
	}
	return cmd
}

func applyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "apply FILE", Args: cli.Wants("FILE"),
		Short: "Makes keys as a file of export declares them",
		Long: `Compares the keys in a file, as export writes it, with those of the gateway, and
changes what differs. Run a second time, it changes nothing. A key that others
change meanwhile is left as they have made it, and the command fails.

It makes no key, because a file has no secret, and it deletes none: keys that are
not in the file stay as they are. - reads standard input.`,
		Example: "  card-keys apply keys.json --dry-run\n  card-keys apply keys.json",
	}
	cmd.Flags().Bool("dry-run", false, "only print what would be changed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		declared, err := openDeclaration(cmd, args[0])
		if err != nil {
			return fmt.Errorf("reading %s: %w", args[0], err)
		}
		return apply(cmd, &declared)
	}
	return cmd
}

func openDeclaration(cmd *cobra.Command, path string) (declaration, error) {
	from := cmd.InOrStdin()
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return declaration{}, err
		}
		defer f.Close()
		from = f
	}
	return readDeclaration(from)
}

// applied is what apply did, or would do, to a key.
type applied struct {
	ID      string       `json:"id"`
	Changes []difference `json:"changes"`
	Error   string       `json:"error,omitempty"`
}

var errNotApplied = errors.New("not all keys are as the file declares them; the others are named above")

// apply changes the keys that differ, and reports them.
func apply(cmd *cobra.Command, declared *declaration) error {
	views, err := listAll(cmd, 0)
	if err != nil {
		return err
	}
	present := make(map[string]*keys.View, len(views))
	for i := range views {
		present[views[i].ID] = &views[i]
	}
	list, failed := []applied{}, false
	for i := range declared.Keys {
		result, differs := applyOne(cmd, &declared.Keys[i], present[declared.Keys[i].ID])
		if differs {
			list = append(list, result)
			failed = failed || result.Error != ""
		}
	}
	if err := printApplied(cmd, list, len(declared.Keys)); err != nil {
		return err
	}
	if failed {
		return errNotApplied
	}
	return nil
}

// applyOne changes a key, unless it is as declared already.
func applyOne(cmd *cobra.Command, want *declaredKey, have *keys.View) (result applied, differs bool) {
	result.ID = want.ID
	if have == nil {
		result.Error = "there is no such key; make it by create or import, because a file has no secret"
		return result, true
	}
	if have.Status == keys.StatusUnreadable {
		result.Error = have.Seal.Problem
		return result, true
	}
	now := declare(have)
	var patch map[string]any
	if result.Changes, patch = want.differencesTo(&now); len(patch) == 0 {
		return result, false
	}
	if cli.Flag(cmd, "dry-run") == "true" {
		return result, true
	}
	var changed keys.Changed
	if _, err := callAdmin(cmd, adminRequest{method: http.MethodPatch, path: keyPath(want.ID, ""), body: patch, revision: have.Revision}, &changed); err != nil {
		result.Error = err.Error()
		return result, true
	}
	warnUnreplicated(cmd, changed.Replicated)
	return result, true
}

func printApplied(cmd *cobra.Command, list []applied, declared int) error {
	if asJSON(cmd) {
		return printJSON(cmd, list)
	}
	verb := "changed"
	if cli.Flag(cmd, "dry-run") == "true" {
		verb = "would change"
	}
	out, changed := cmd.OutOrStdout(), 0
	for _, a := range list {
		if a.Error != "" {
			fmt.Fprintf(out, "failed %s: %s\n", a.ID, a.Error)
			continue
		}
		changed++
		fmt.Fprintf(out, "%s %s\n", verb, a.ID)
		for _, c := range a.Changes {
			fmt.Fprintf(out, "  %s\n", c)
		}
	}
	fmt.Fprintf(out, "%s %d of %d keys\n", verb, changed, declared)
	return nil
}
