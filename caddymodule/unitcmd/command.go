//go:build unix

package unitcmd

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/caddymodule/cli"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "card-unit",
		Usage: "[--unit FILE] COMMAND …",
		Short: "Runs a command of the gateway as the systemd unit runs the gateway",
		Long: `Runs a command of the gateway, such as validate or card-keys, in the environment
of the systemd unit: its variables (Environment, EnvironmentFile and drop-ins), its
user, its directories and its credentials. So a Caddyfile means the same by hand as
in the service.

Run it as root for commands that need the credentials or another user. It needs no
systemd, and the service need not run.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args = cobra.MinimumNArgs(1)
			cmd.Flags().SetInterspersed(false) // the flags behind the command are the command's
			cmd.Flags().String("unit", "/etc/systemd/system/card-gateway.service", "unit file")
			cmd.Example = `  card-unit validate --config /etc/card-gateway/Caddyfile --adapter caddyfile
  card-unit card-keys list --status locked`
			cmd.RunE = run
		},
	})
}

// run runs the command, and ends with its exit status.
func run(cmd *cobra.Command, args []string) error {
	place := "" // of the caller
	if os.Geteuid() == 0 {
		place = "/run" // no disk
	}
	secrets, err := os.MkdirTemp(place, "card-unit-")
	if err != nil {
		return fmt.Errorf("making a directory for the credentials: %w", err)
	}
	defer func() { _ = os.RemoveAll(secrets) }()
	u, err := readUnit(cli.Flag(cmd, "unit"), secrets)
	if err != nil {
		return fmt.Errorf("reading the unit: %w", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the binary: %w", err)
	}
	child := exec.CommandContext(cmd.Context(), binary, args...)
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	for _, name := range []string{"PATH", "TERM", "LANG"} { // which a command also needs of the shell
		if value, ok := os.LookupEnv(name); ok {
			child.Env = append(child.Env, name+"="+value)
		}
	}
	child.Env = append(child.Env, u.environment...)
	if child.SysProcAttr, err = u.account(); err != nil {
		return fmt.Errorf("the user of the unit: %w", err)
	}
	if err := u.load(secrets, child.SysProcAttr); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: the command runs without a credential of the unit:", err)
	}
	err = runForwarding(child)
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return cli.Exit(cmd, max(1, exit.ExitCode()))
	}
	return err
}

// runForwarding runs the child, and passes on to it the signals that end a command.
func runForwarding(child *exec.Cmd) error {
	defer syscall.Umask(syscall.Umask(0o077))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return fmt.Errorf("running %s: %w", child.Path, err)
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	return child.Wait()
}

// account returns how a process becomes the unit's user; nil: the command runs as the
// caller, who is that user already, or may not become another one.
func (u *unit) account() (*syscall.SysProcAttr, error) {
	if u.user == "" || os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup(u.user)
	if err != nil || found.Uid == "0" {
		return nil, err
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, cmp.Or(err, gidErr)
}

// load copies the credentials into a directory that only the account can read.
func (u *unit) load(dir string, as *syscall.SysProcAttr) error {
	var all []error
	owned := []string{dir}
	for _, c := range u.credentials {
		text, err := os.ReadFile(c.path)
		if err == nil {
			owned = append(owned, filepath.Join(dir, c.name))
			err = os.WriteFile(filepath.Join(dir, c.name), text, 0o400)
		}
		all = append(all, err)
	}
	for i := 0; as != nil && i < len(owned); i++ {
		all = append(all, os.Chown(owned[i], int(as.Credential.Uid), int(as.Credential.Gid)))
	}
	return errors.Join(all...)
}
