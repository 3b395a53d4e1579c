// Package unitcmd is the command card-unit: it runs a command of the gateway as
// the systemd unit runs the gateway.
package unitcmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A unit is what of a unit file decides in which environment its commands run.
type unit struct {
	user        string
	environment []string // NAME=VALUE; later ones win
	credentials []credential
}

// A credential is a file that systemd gives to the service alone.
type credential struct{ name, path string }

// directories are the roots that systemd's specifiers and directory settings name.
var directories = map[string]struct{ setting, variable, root string }{
	"t": {"RuntimeDirectory", "RUNTIME_DIRECTORY", "/run"},
	"S": {"StateDirectory", "STATE_DIRECTORY", "/var/lib"},
	"L": {"LogsDirectory", "LOGS_DIRECTORY", "/var/log"},
	"C": {"CacheDirectory", "CACHE_DIRECTORY", "/var/cache"},
	"E": {"ConfigurationDirectory", "CONFIGURATION_DIRECTORY", "/etc"},
}

// readUnit reads a unit file and its drop-ins. The directory of the credentials is
// the one given.
func readUnit(path, credentials string) (*unit, error) {
	files, err := filepath.Glob(path + ".d/*.conf")
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	u := new(unit)
	for _, file := range append([]string{path}, files...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := u.read(string(text), credentials); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return u, nil
}

// read reads the section Service of a text.
func (u *unit) read(text, credentials string) error {
	section := ""
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			section = line
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || section != "[Service]" {
			continue
		}
		if err := u.set(strings.TrimSpace(name), strings.TrimSpace(value), credentials); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(name), err)
		}
	}
	return nil
}

// set takes a setting over.
func (u *unit) set(name, value, credentials string) error {
	switch name {
	case "User", "Environment", "EnvironmentFile", "LoadCredential":
	default:
		for _, d := range directories {
			if d.setting == name {
				u.environment = append(u.environment, d.variable+"="+filepath.Join(d.root, value))
			}
		}
		return nil
	}
	value, err := expand(value, credentials)
	if err != nil {
		return err
	}
	switch name {
	case "User":
		u.user = value
	case "Environment":
		words, err := splitWords(value)
		u.environment = append(u.environment, words...)
		return err
	case "EnvironmentFile":
		return u.readEnvironment(value)
	case "LoadCredential":
		id, path, _ := strings.Cut(value, ":")
		u.credentials = append(u.credentials, credential{id, path})
	}
	return nil
}

// expand replaces systemd's specifiers.
func expand(text, credentials string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if rest == "" {
			return "", errors.New("% at the end")
		}
		switch letter := rest[:1]; {
		case letter == "%":
			b.WriteByte('%')
		case letter == "d":
			b.WriteString(credentials)
		case directories[letter].root != "":
			b.WriteString(directories[letter].root)
		default:
			return "", fmt.Errorf("the specifier %%%s is not known here", letter)
		}
		text = rest[1:]
	}
}

// splitWords splits at blanks that are not quoted.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, begun := rune(0), false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

// readEnvironment reads a file of variables. With - before its path it may be
// missing.
func (u *unit) readEnvironment(path string) error {
	path, optional := strings.CutPrefix(path, "-")
	f, err := os.Open(path)
	if optional && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%s: %q is no NAME=VALUE", path, name)
		}
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		u.environment = append(u.environment, strings.TrimSpace(name)+"="+value)
	}
	return lines.Err()
}
