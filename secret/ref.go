// Package secret reads secrets from environment variables, files and standard
// input, so that no configuration and no command line contains one.
//
// Begin with [Ref].
package secret

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Ref is a reference to a secret. The configuration never contains the secret
// itself, because Caddy shows and saves its configuration. Exactly one of the
// fields is set.
type Ref struct {
	// Name of an environment variable that holds the secret.
	Env string `json:"env,omitempty"`
	// Path of a file that holds the secret.
	File string `json:"file,omitempty"`
}

// Read returns the secret without line ends after it. If the secret is missing
// or empty, the error names the place. A file that everybody may read by an oversight, with
// a mode such as an editor gives, is refused too: orchestrators mount secrets as links, or
// as 0444.
func (s *Ref) Read() (string, error) {
	switch {
	case s.Env != "" && s.File != "":
		return "", errors.New("give either env or file, not both")
	case s.Env != "":
		text, ok := os.LookupEnv(s.Env)
		if !ok || text == "" {
			return "", fmt.Errorf("the environment variable %s is not set or empty", s.Env)
		}
		return text, nil
	case s.File != "":
		if err := CheckMode(s.File); err != nil {
			return "", err
		}
		text, err := ReadFile(s.File)
		return strings.TrimRight(text, "\r\n"), err
	default:
		return "", errors.New("neither env nor file is given: write env NAME or file PATH")
	}
}

// CheckMode returns an error for a file that everybody may read by an oversight.
func CheckMode(path string) error {
	if found, err := os.Lstat(path); err == nil && found.Mode().IsRegular() && found.Mode().Perm()&0o206 == 0o204 {
		return fmt.Errorf("%s can be read by everybody (mode %04o): chmod 0600 %s for the gateway's user, or 0440 for its group; 0444 is taken as meant", path, found.Mode().Perm(), path)
	}
	return nil
}

// String names the place, never the secret.
func (s *Ref) String() string {
	if s.Env != "" {
		return "environment variable " + s.Env
	}
	return "file " + s.File
}

// ErrEmpty means that the place of a secret is empty.
var ErrEmpty = errors.New("empty")

// maxSize is the most bytes that are read for a secret.
const maxSize = 64 << 10

// ReadFile returns the secret in a file, without one line end after it. It is an
// error if the file is empty, is larger than 64 KiB, or can be written by
// everybody.
func ReadFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return "", fmt.Errorf("%s can be written by everybody (mode %04o), who could then choose the secret: chmod o-w %s", path, mode, path)
	}
	return ReadFrom(f, path)
}

// ReadFrom is ReadFile for a stream, such as standard input. Errors name the
// stream as source.
func ReadFrom(r io.Reader, source string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", source, err)
	}
	if len(text) > maxSize {
		return "", fmt.Errorf("%s is larger than %d bytes; is it the right file?", source, maxSize)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if strings.Trim(secret, "\r\n") == "" {
		return "", fmt.Errorf("%s is %w", source, ErrEmpty)
	}
	return secret, nil
}
