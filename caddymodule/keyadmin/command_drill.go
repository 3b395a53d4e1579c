package keyadmin

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
	"github.com/card-gateway/card-gateway/caddymodule/secret"
	"github.com/card-gateway/card-gateway/keys"
)

func drillCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "drill DIRECTORY --master-key-file FILE", Args: cli.Wants("DIRECTORY"),
		Short: "Opens all keys of a restored embedded store, without a gateway",
		Long: `Opens the secrets of all keys in the directory of an embedded store, such as a
restored backup, with a master key, checks the seals of their records, and prints
how many keys it opened. It needs
no gateway and writes nothing. It fails if a key cannot be opened, or if there is
none.`,
		Example: "  card-keys drill /tmp/restored --master-key-file /etc/card-gateway/master.key",
	}
	cmd.Flags().String("master-key-file", "", "file of the master key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path := cli.Flag(cmd, "master-key-file")
		if path == "" {
			return errors.New("name the master key by --master-key-file")
		}
		text, err := secret.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the master key: %w", err)
		}
		ring, err := keys.ParseKeyring(text)
		if err != nil {
			return err
		}
		return drill(cmd, args[0], ring)
	}
	return cmd
}

func drill(cmd *cobra.Command, dir string, ring *keys.Keyring) error {
	backend, err := openEmbedded(dir)
	if err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	defer func() { _ = backend.Close() }()
	done, err := keys.New(backend, ring, keys.Options{}).Drill(cmd.Context())
	if err != nil {
		return fmt.Errorf("reading the keys: %w", err)
	}
	if asJSON(cmd) {
		if err := printJSON(cmd, done); err != nil {
			return err
		}
	} else {
		for _, failed := range done.Failed {
			fmt.Fprintf(cmd.OutOrStdout(), "%s cannot be opened: %s\n", failed.ID, failed.Reason)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "opened %d of %d keys\n", done.Opened, done.Opened+len(done.Failed))
		if done.Unsealed > 0 {
			fmt.Fprintf(cmd.OutOrStdout(), "%d of them have a record without a seal\n", done.Unsealed)
		}
	}
	switch {
	case len(done.Failed) > 0:
		return errors.New("not all keys can be opened with this master key")
	case done.Opened == 0:
		return fmt.Errorf("%s holds no keys", dir)
	}
	return nil
}
