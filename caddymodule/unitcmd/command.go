//go:build unix

package unitcmd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
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
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				code, err := run(cmd, args)
				if err != nil || code == 0 {
					return err
				}
				cmd.SilenceErrors = true
				if code == 1 {
					return errFailed
				}
				return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, nil)
			}
		},
	})
}

var errFailed = errors.New("the command failed")

// kept are the variables that a command also needs of the shell.
var kept = []string{"PATH", "TERM", "LANG"}

// run runs the command and returns its exit status.
func run(cmd *cobra.Command, args []string) (int, error) {
	place := "" // of the caller
	if os.Geteuid() == 0 {
		place = "/run" // no disk
	}
	secrets, err := os.MkdirTemp(place, "card-unit-")
	if err != nil {
		return 0, fmt.Errorf("making a directory for the credentials: %w", err)
	}
	defer func() { _ = os.RemoveAll(secrets) }()
	u, err := readUnit(cli.Flag(cmd, "unit"), secrets)
	if err != nil {
		return 0, fmt.Errorf("reading the unit: %w", err)
	}
	as, err := u.account()
	if err != nil {
		return 0, err
	}
	if err := u.load(secrets, as); err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning: the command runs without a credential of the unit:", err)
	}
	binary, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding the binary: %w", err)
	}
	return u.execute(cmd, append([]string{binary}, args...), as)
}

func (u *unit) execute(cmd *cobra.Command, words []string, as *syscall.Credential) (int, error) {
	child := exec.CommandContext(cmd.Context(), words[0], words[1:]...)
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	for _, name := range kept {
		if value, ok := os.LookupEnv(name); ok {
			child.Env = append(child.Env, name+"="+value)
		}
	}
	child.Env = append(child.Env, u.environment...)
	if as != nil {
		child.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	if err := child.Start(); err != nil {
		return 0, fmt.Errorf("running %s: %w", words[0], err)
	}
	go func() {
		for s := range signals {
			_ = child.Process.Signal(s)
		}
	}()
	err := child.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// load copies the credentials into a directory that only the account can read.
func (u *unit) load(dir string, as *syscall.Credential) error {
	var all []error
	for _, c := range u.credentials {
		text, err := os.ReadFile(c.path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, c.name), text, 0o400)
		}
		if err == nil && as != nil {
			err = os.Chown(filepath.Join(dir, c.name), int(as.Uid), int(as.Gid))
		}
		all = append(all, err)
	}
	if as != nil {
		all = append(all, os.Chown(dir, int(as.Uid), int(as.Gid)))
	}
	return errors.Join(all...)
}
