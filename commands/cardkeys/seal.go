package cardkeys

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/commands/cli"
	"github.com/card-gateway/card-gateway/keys"
)

func sealCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "seal [ID ...]", Args: cobra.ArbitraryArgs,
		Short: "Shows what keys are granted, and seals their records once you approve",
		Long: `Seals the records of keys that have no seal, such as those of version 0.1.
A seal shows that a gateway with the master key wrote the record. Nothing shows
that for a record without a seal: so the command prints what each key is granted,
and whoever approves it vouches for it. What was changed after it was printed is
not sealed.

A record that was forged, or that lost its seal, is refused. Such a key is sealed
only if you name its ID.

From then on the records of new keys are sealed, too. Stop the gateways of earlier
versions before: they drop the seal of a record that they change. When all keys of a
store of version 0.1 are sealed, write ` + "`seal required`" + ` into the configuration of
every gateway.`,
		Example: "  card-keys seal --dry-run\n  card-keys seal\n  card-keys seal ck_live_…   # also if its record was forged",
	}
	cmd.Flags().Bool("dry-run", false, "only print what would be sealed")
	cmd.Flags().Bool("yes", false, "approve all that is printed")
	cmd.RunE = sealByCommand
	return cmd
}

// errNotApproved is returned when the operator does not approve.
var errNotApproved = errors.New("nothing was sealed")

func sealByCommand(cmd *cobra.Command, ids []string) error {
	views, err := listAll(cmd, 0)
	if err != nil {
		return err
	}
	chosen, err := chooseUnsealed(views, ids)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if cli.IsSet(cmd, "json") {
		if err := cli.PrintJSON(cmd, adminapi.KeyPage{Keys: chosen}); err != nil {
			return err
		}
		out = cmd.ErrOrStderr()
	} else {
		for _, v := range chosen {
			if err := printKey(cmd, v, ""); err != nil {
				return err
			}
			fmt.Fprintln(out)
		}
	}
	if cli.IsSet(cmd, "dry-run") {
		fmt.Fprintf(out, "would seal %d keys\n", len(chosen))
		return nil
	}
	if len(chosen) > 0 {
		if err := approve(cmd, fmt.Sprintf("Seal these %d keys with what is printed above? Type yes: ", len(chosen)), errNotApproved); err != nil {
			return err
		}
	}
	err = eachKey(cmd, len(chosen), func(i int) error {
		v := &chosen[i]
		if _, _, err := change(cmd, cli.Post(keyPath(v.ID, "/seal"), adminapi.SealRequest{Digest: v.Seal.Digest})); err != nil {
			return fmt.Errorf("key %s is not sealed, after %d that are: %w; you can run the command again", v.ID, i, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "sealed %d keys\n", len(chosen))
	return leftUnsealed(cmd)
}

// chooseUnsealed returns the keys to be sealed: those of the ids, or without ids
// all that have no seal and were not seen with one.
func chooseUnsealed(views []keys.View, ids []string) ([]keys.View, error) {
	for _, id := range ids {
		switch at := slices.IndexFunc(views, func(v keys.View) bool { return v.ID == id }); {
		case at < 0:
			return nil, fmt.Errorf("there is no key %s", id)
		case views[at].Status == keys.StatusUnreadable:
			return nil, fmt.Errorf("key %s: %s", id, views[at].Seal.Problem)
		case views[at].Seal.State == keys.SealSealed:
			return nil, fmt.Errorf("key %s is sealed already", id)
		}
	}
	return slices.DeleteFunc(views, func(v keys.View) bool {
		if len(ids) > 0 {
			return !slices.Contains(ids, v.ID)
		}
		return v.Seal.State != keys.SealUnsealed
	}), nil
}

// approve returns nil if whoever runs the command approves what was printed, and
// otherwise an error that wraps declined.
func approve(cmd *cobra.Command, question string, declined error) error {
	if cli.IsSet(cmd, "yes") {
		return nil
	}
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
		return fmt.Errorf("%w: there is no terminal to ask at; check what is printed above, then add --yes", declined)
	}
	fmt.Fprint(cmd.ErrOrStderr(), question)
	answer, _ := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return declined
	}
	return nil
}

var errLeftUnsealed = errors.New("not all keys are sealed; the others are named above")

// leftUnsealed names the keys that are not sealed.
func leftUnsealed(cmd *cobra.Command) error {
	views, err := listAll(cmd, 0)
	if err != nil {
		return err
	}
	left := false
	for _, v := range views {
		if v.Seal.State != keys.SealSealed {
			left = true
			fmt.Fprintf(cmd.ErrOrStderr(), "not sealed: %s (%s)\n", v.ID, sealText(&v.Seal))
		}
	}
	if left {
		return errLeftUnsealed
	}
	return nil
}
