// Package unitcmd is the command card-unit: it runs a command of the gateway as
// the systemd unit runs the gateway.
package unitcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A unit is what of a unit file decides in which environment its commands run.
type unit struct {
	user        string
	environment []string // NAME=VALUE; later ones win
	credentials []credential
	specifiers  map[string]string // of systemd, with their values
}

// A credential is a file that systemd gives to the service alone.
type credential struct{ name, path string }

// directories are the settings that name a directory, each with its variable and root.
var directories = map[string]struct{ variable, root string }{
	"RuntimeDirectory":       {"RUNTIME_DIRECTORY", "%t"},
	"StateDirectory":         {"STATE_DIRECTORY", "%S"},
	"LogsDirectory":          {"LOGS_DIRECTORY", "%L"},
	"CacheDirectory":         {"CACHE_DIRECTORY", "%C"},
	"ConfigurationDirectory": {"CONFIGURATION_DIRECTORY", "%E"},
}

// readUnit reads a unit file and its drop-ins. The directory of the credentials is
// the one given.
func readUnit(path, credentials string) (*unit, error) {
	u := &unit{specifiers: map[string]string{
		"%%": "%", "%d": credentials, "%t": "/run", "%S": "/var/lib", "%L": "/var/log", "%C": "/var/cache", "%E": "/etc",
	}}
	dropIns, err := filepath.Glob(path + ".d/*.conf")
	if err != nil {
		return nil, err
	}
	for _, file := range append([]string{path}, dropIns...) {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		section := ""
		for _, line := range settingLines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			name, value, ok := strings.Cut(line, "=")
			if line[0] == '[' {
				section = line
			} else if ok && section == "[Service]" {
				err = errors.Join(err, u.set(strings.TrimSpace(name), strings.TrimSpace(value)))
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return u, nil
}

// settingLines returns the lines of a text that are neither empty nor a comment.
func settingLines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != ';' {
			all = append(all, line)
		}
	}
	return all
}

// set takes a setting of the section Service over. The specifiers of a setting that is
// not used here need not be known.
func (u *unit) set(name, value string) error {
	if d, ok := directories[name]; ok {
		u.environment = append(u.environment, d.variable+"="+filepath.Join(u.specifiers[d.root], value))
		return nil
	}
	value, err := u.expand(value)
	switch name {
	case "User":
		u.user = value
	case "Environment":
		words, wordsErr := splitWords(value)
		u.environment, err = append(u.environment, words...), errors.Join(err, wordsErr)
	case "EnvironmentFile":
		err = errors.Join(err, u.readEnvironment(value))
	case "LoadCredential":
		id, path, _ := strings.Cut(value, ":")
		u.credentials = append(u.credentials, credential{id, path})
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

var (
	specifier    = regexp.MustCompile(`%.?`)
	quotableWord = regexp.MustCompile(`(?:[^ \t"']|"[^"]*"|'[^']*')+`)
	quotedPart   = regexp.MustCompile(`"([^"]*)"|'([^']*)'`)
)

// expand replaces systemd's specifiers.
func (u *unit) expand(text string) (expanded string, err error) {
	expanded = specifier.ReplaceAllStringFunc(text, func(s string) string {
		value, known := u.specifiers[s]
		if s == "%" {
			err = errors.New("% at the end")
		} else if !known {
			err = fmt.Errorf("the specifier %s is not known here", s)
		}
		return value
	})
	return expanded, err
}

// splitWords splits at blanks that are not quoted.
func splitWords(text string) (words []string, err error) {
	if strings.ContainsAny(quotableWord.ReplaceAllString(text, ""), `"'`) {
		return nil, errors.New("a quote is not closed")
	}
	for _, word := range quotableWord.FindAllString(text, -1) {
		words = append(words, quotedPart.ReplaceAllString(word, "$1$2"))
	}
	return words, nil
}

// readEnvironment reads a file of variables. With - before its path it may be
// missing.
func (u *unit) readEnvironment(path string) error {
	path, optional := strings.CutPrefix(path, "-")
	text, err := os.ReadFile(path)
	if err != nil && !(optional && errors.Is(err, os.ErrNotExist)) {
		return err
	}
	for _, line := range settingLines(string(text)) {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return fmt.Errorf("%s: %q is no NAME=VALUE", path, name)
		}
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		u.environment = append(u.environment, strings.TrimSpace(name)+"="+value)
	}
	return nil
}
