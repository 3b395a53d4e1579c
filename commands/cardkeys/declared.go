package cardkeys

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/keys"
)

// declaredFormat and declaredVersion begin a file of declared keys.
const (
	declaredFormat  = "card-gateway keys, without secrets"
	declaredVersion = 1
	maxDeclared     = 256 << 20 // bytes
)

// A declaration says of keys what operators set. It has no secrets, so it can be
// kept under version control.
type declaration struct {
	Format  string        `json:"format"`
	Version int           `json:"version"`
	Keys    []declaredKey `json:"keys"`
}

// A declaredKey has every field, so that a file means the same whatever a key has
// at present. What ends by itself, such as debug_until and locks, is not declared.
type declaredKey struct {
	ID              string                     `json:"id"`
	Tenant          string                     `json:"tenant"`
	Description     string                     `json:"description"`
	Scopes          []string                   `json:"scopes"`
	AllowedIPs      []string                   `json:"allowed_ips"`
	ExpiresAt       *time.Time                 `json:"expires_at"`
	Disabled        bool                       `json:"disabled"`
	Limits          map[string]json.RawMessage `json:"limits"`
	CustomerVariant *string                    `json:"customer_variant"`
}

func declare(v *keys.View) declaredKey {
	d := declaredKey{
		ID: v.ID, Tenant: v.Tenant, Description: v.Description, Scopes: v.Scopes, AllowedIPs: v.AllowedIPs,
		ExpiresAt: v.ExpiresAt, Disabled: v.Disabled, Limits: v.Limits, CustomerVariant: v.CustomerVariant,
	}
	if d.Limits == nil {
		d.Limits = map[string]json.RawMessage{}
	}
	return d
}

// declareAll returns the declaration of keys, sorted by id.
func declareAll(views []keys.View) declaration {
	d := declaration{Format: declaredFormat, Version: declaredVersion, Keys: make([]declaredKey, len(views))}
	for i := range views {
		d.Keys[i] = declare(&views[i])
	}
	slices.SortFunc(d.Keys, func(a, b declaredKey) int { return cmp.Compare(a.ID, b.ID) })
	return d
}

// readDeclaration reads a file strictly, or standard input for -.
func readDeclaration(cmd *cobra.Command, path string) (d declaration, err error) {
	text, err := cli.ReadInput(cmd, path, maxDeclared)
	if err != nil {
		return d, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return d, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return d, errors.New("more follows after the keys")
	}
	if d.Format != declaredFormat || d.Version != declaredVersion {
		return d, fmt.Errorf("it is not of the format %q, version %d, which card-keys export writes", declaredFormat, declaredVersion)
	}
	seen := make(map[string]bool)
	for i := range d.Keys {
		switch id := d.Keys[i].ID; {
		case id == "":
			return d, fmt.Errorf("key %d has no id", i+1)
		case seen[id]:
			return d, fmt.Errorf("key %s is in it twice", id)
		default:
			seen[id] = true
		}
	}
	return d, nil
}

// A difference is a field whose value is not the declared one.
type difference struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

// differencesTo returns the fields of a key that are not as declared, and the merge
// patch that makes them so.
func (d *declaredKey) differencesTo(present *declaredKey) ([]difference, map[string]any) {
	want, have := d.fields(), present.fields()
	var changes []difference
	patch := make(map[string]any)
	for _, name := range declaredFields {
		if bytes.Equal(want[name], have[name]) {
			continue
		}
		changes = append(changes, difference{Field: name, Old: have[name], New: want[name]})
		patch[name] = want[name]
	}
	if _, differ := patch["limits"]; differ {
		limits := make(map[string]any) // objects are merged: null removes
		for name := range present.Limits {
			limits[name] = nil
		}
		for name, limit := range d.Limits {
			limits[name] = limit
		}
		patch["limits"] = limits
	}
	return changes, patch
}

var declaredFields = []string{"tenant", "description", "scopes", "allowed_ips", "expires_at", "disabled", "limits", "customer_variant"}

// fields returns the JSON of each field in one spelling.
func (d *declaredKey) fields() map[string]json.RawMessage {
	one := *d
	if one.Limits == nil {
		one.Limits = map[string]json.RawMessage{}
	}
	if one.ExpiresAt != nil {
		utc := one.ExpiresAt.UTC()
		one.ExpiresAt = &utc
	}
	text, err := json.Marshal(one)
	all := make(map[string]json.RawMessage)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil // a limit that is no JSON cannot have been decoded
	}
	return all
}

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
		return cli.PrintJSON(cmd, declareAll(views))
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
		declared, err := readDeclaration(cmd, args[0])
		if err != nil {
			return fmt.Errorf("reading %s: %w", args[0], err)
		}
		return apply(cmd, &declared)
	}
	return cmd
}

// applyResult is what apply did, or would do, to a key.
type applyResult struct {
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
	list, failed := []applyResult{}, false
	_ = eachKey(cmd, len(declared.Keys), func(i int) error {
		result, differs := applyOne(cmd, &declared.Keys[i], present[declared.Keys[i].ID])
		if differs {
			list = append(list, result)
			failed = failed || result.Error != ""
		}
		return nil
	})
	err = cli.PrintAnswer(cmd, list, func(out io.Writer) error { return printApplied(cmd, out, list, len(declared.Keys)) })
	if err == nil && failed {
		return errNotApplied
	}
	return err
}

// applyOne changes a key, unless it is as declared already.
func applyOne(cmd *cobra.Command, want *declaredKey, have *keys.View) (result applyResult, differs bool) {
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
	if cli.IsSet(cmd, "dry-run") {
		return result, true
	}
	if _, _, err := change(cmd, cli.Request{Method: http.MethodPatch, Path: keyPath(want.ID, ""), Body: patch, Revision: have.Revision}); err != nil {
		result.Error = err.Error()
	}
	return result, true
}

func printApplied(cmd *cobra.Command, out io.Writer, list []applyResult, declared int) error {
	verb, changed := "changed", 0
	if cli.IsSet(cmd, "dry-run") {
		verb = "would change"
	}
	for _, a := range list {
		if a.Error != "" {
			fmt.Fprintf(out, "failed %s: %s\n", a.ID, a.Error)
			continue
		}
		changed++
		fmt.Fprintf(out, "%s %s\n", verb, a.ID)
		for _, c := range a.Changes {
			fmt.Fprintf(out, "  %s: %s -> %s\n", c.Field, c.Old, c.New)
		}
	}
	fmt.Fprintf(out, "%s %d of %d keys\n", verb, changed, declared)
	return nil
}
