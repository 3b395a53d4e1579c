//go:build unix

package cardunit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/commands/cli"
)

func init() {
	cli.Register(caddycmd.Command{
		Name:  "card-unit",
		Usage: "[--unit FILE] COMMAND …",
		Short: "Runs a command of the gateway as the systemd unit runs the gateway",
		Long: `Runs a command of the gateway, such as validate or card-keys, in the environment
of the systemd unit: its variables (Environment, EnvironmentFile and drop-ins), user,
directories and credentials. So a Caddyfile means the same by hand as in the service.

Run it as root for commands that need the credentials or another user. It needs no
systemd, and the service need not run.`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Args, cmd.RunE = cobra.MinimumNArgs(1), run
			cmd.Flags().SetInterspersed(false) // the flags behind the command are the command's
			cmd.Flags().String("unit", "", "unit file (default: the one of systemd for card-gateway)")
			cmd.Example = `  card-unit validate --config /etc/card-gateway/Caddyfile --adapter caddyfile
  card-unit card-keys list --status locked`
		},
	})
}

// run runs the command, and ends with its exit status.
func run(cmd *cobra.Command, args []string) error {
	place := map[bool]string{true: "/run"}[os.Geteuid() == 0] // no disk, if the caller may
	secrets, err := os.MkdirTemp(place, "card-unit-")
	defer func() { _ = os.RemoveAll(secrets) }()
	files := cli.UnitFiles()
	if path := cli.Flag(cmd, "unit"); path != "" {
		dropIns, globErr := filepath.Glob(path + ".d/*.conf")
		files, err = append([]string{path}, dropIns...), errors.Join(err, globErr)
	}
	u, unitErr := readUnit(files, secrets)
	binary, binaryErr := os.Executable()
	if err = errors.Join(err, unitErr, binaryErr); err != nil {
		return fmt.Errorf("reading the unit: %w", err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	child := exec.CommandContext(ctx, binary, args...)
	// "Done", so that Run returns the status that the command ends with.
	child.Cancel = func() error { return errors.Join(os.ErrProcessDone, child.Process.Signal(syscall.SIGTERM)) }
	child.Stdin, child.Stdout, child.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	child.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TERM=" + os.Getenv("TERM"), "LANG=" + os.Getenv("LANG")}, u.environment...)
	u.become(child, secrets)
	defer syscall.Umask(syscall.Umask(0o077))
	if err = child.Run(); child.ProcessState == nil || child.ProcessState.Success() {
		return err
	}
	return cli.Exit(cmd, max(1, child.ProcessState.ExitCode()))
}

// A unit is what of a unit file decides in which environment its commands run.
type unit struct {
	user        string
	environment []string // NAME=VALUE; later ones win
	fromFiles   []string // of EnvironmentFile; they win over all others, whatever the order
	credentials []credential
	specifiers  *strings.Replacer // of systemd, for their values
}

// A credential is a file that systemd gives to the service alone.
type credential struct{ name, path string }

// become makes the command run as the unit's user, and copies the credentials into a
// directory that only that user can read. Who is not root may not become another one.
func (u *unit) become(child *exec.Cmd, dir string) {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 && u.user != "" {
		found, err := user.Lookup(u.user)
		if err != nil {
			child.Err = fmt.Errorf("the user of the unit: %w", err)
			return
		}
		_, _ = fmt.Sscan(found.Uid+" "+found.Gid, &uid, &gid) // numbers, on Unix
		child.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: uid == 0}}
	}
	for _, c := range u.credentials {
		text, err := os.ReadFile(c.path)
		if file := filepath.Join(dir, c.name); err == nil {
			err = errors.Join(os.WriteFile(file, text, 0o400), os.Chown(file, uid, gid))
		}
		if err = errors.Join(err, os.Chown(dir, uid, gid)); err != nil {
			fmt.Fprintln(child.Stderr, "warning: the command runs without a credential of the unit:", err)
		}
	}
}

// roots are where the directories of RuntimeDirectory and its like are.
var roots = map[string]string{"Runtime": "%t", "State": "%S", "Logs": "%L", "Cache": "%C", "Configuration": "%E"}

// What systemd reads: in a unit the sections Service and in these the settings used
// here (a unit of a service has no other section with S), and the lines of a file of
// variables. A comment neither goes on in the next line nor ends a line that does.
var (
	comment      = regexp.MustCompile(`(?m)^[ \t]*[#;].*\n?`)
	service      = regexp.MustCompile(`(?ms)^[ \t]*\[Service\].*?(?:^[ \t]*\[[^S]|\z)`)
	setting      = regexp.MustCompile(`(?m)^[ \t]*(User|Environment(?:File)?|LoadCredential|(?:Runtime|State|Logs|Cache|Configuration)Directory)[ \t]*=[ \t]*(.*?)[ \t\r]*$`)
	variable     = regexp.MustCompile(`(?m)^[ \t]*([^#;=\s]+)[ \t]*(=)[ \t]*(?:"(.*)"|'(.*)'|(.*?))[ \t\r]*$`)
	known        = regexp.MustCompile(`^(?:[^%]|%[%dtSLCE])*`)
	quotableWord = regexp.MustCompile(`(?:[^ \t"']|"[^"]*"|'[^']*')+`)
	quotedPart   = regexp.MustCompile(`"([^"]*)"|'([^']*)'`)
)

// Credentials returns the files that the unit of this machine gives to the service; none
// if there is no unit.
func Credentials() (paths []string, err error) {
	files := cli.UnitFiles()
	if len(files) == 0 {
		return nil, nil
	}
	u, err := readUnit(files, "")
	if err != nil {
		return nil, err
	}
	for _, c := range u.credentials {
		paths = append(paths, c.path)
	}
	return paths, nil
}

// readUnit reads a unit file and its drop-ins, for a directory of the credentials.
func readUnit(files []string, secrets string) (*unit, error) {
	if len(files) == 0 {
		return nil, errors.New("systemd has no unit card-gateway; name its file with --unit")
	}
	u := &unit{specifiers: strings.NewReplacer("%%", "%", "%d", secrets, "%t", "/run", "%S", "/var/lib", "%L", "/var/log", "%C", "/var/cache", "%E", "/etc")}
	for _, file := range files {
		text, err := os.ReadFile(file)
		lines := strings.ReplaceAll(comment.ReplaceAllString(string(text), ""), "\\\n", " ")
		for _, line := range setting.FindAllStringSubmatch(strings.Join(service.FindAllString(lines, -1), "\n"), -1) {
			err = errors.Join(err, u.set(line[1], line[2]))
		}
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", err, file)
		}
	}
	u.environment = append(u.environment, u.fromFiles...)
	return u, nil
}

// set takes a setting over. Of two of a kind for one variable the later one wins.
func (u *unit) set(name, value string) (err error) {
	if kind, ok := strings.CutSuffix(name, "Directory"); ok {
		name, value = "Environment", strings.ToUpper(kind)+"_DIRECTORY="+roots[kind]+"/"+value
	}
	if rest := known.ReplaceAllString(value, ""); rest != "" {
		return fmt.Errorf("%s: the specifier %s at the end is not known here", name, rest)
	}
	value = u.specifiers.Replace(value)
	var words []string
	switch name {
	case "User":
		u.user = value
	case "Environment":
		words, err = splitWords(value)
	case "EnvironmentFile":
		text, readErr := os.ReadFile(strings.TrimPrefix(value, "-"))
		if !strings.HasPrefix(value, "-") || !errors.Is(readErr, os.ErrNotExist) {
			err = readErr
		}
		u.fromFiles = append(u.fromFiles, unquoted(string(text), variable, variable)...)
	case "LoadCredential":
		id, path, _ := strings.Cut(value, ":")
		u.credentials = append(u.credentials, credential{id, path})
	}
	u.environment = append(u.environment, words...)
	return err
}

// splitWords splits at blanks that are not quoted.
func splitWords(text string) ([]string, error) {
	if strings.ContainsAny(quotableWord.ReplaceAllString(text, ""), `"'`) {
		return nil, errors.New("a quote is not closed")
	}
	return unquoted(text, quotableWord, quotedPart), nil
}

// unquoted returns what is found in a text, each without its quotes.
func unquoted(text string, find, quotes *regexp.Regexp) (all []string) {
	for _, found := range find.FindAllString(text, -1) {
		all = append(all, quotes.ReplaceAllString(found, "$1$2$3$4$5"))
	}
	return all
}
