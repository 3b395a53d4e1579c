package caddymodule

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// SecretRef says where a secret is found. A secret itself never stands in the
// configuration, because Caddy shows and saves its configuration. Exactly one
// of the fields is set.
type SecretRef struct {
	// Name of an environment variable that holds the secret.
	Env string `json:"env,omitempty"`
	// Path of a file that holds the secret.
	File string `json:"file,omitempty"`
}

const secretFileLimit = 64 << 10

// read returns the secret without the line end that editors leave behind.
func (s *SecretRef) read() (string, error) {
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
		return secretFromFile(s.File)
	default:
		return "", errors.New("say where it is: env NAME or file PATH")
	}
}

func secretFromFile(path string) (string, error) {
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
	text, err := io.ReadAll(io.LimitReader(f, secretFileLimit+1))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if len(text) > secretFileLimit {
		return "", fmt.Errorf("%s is larger than %d bytes; is it the right file?", path, secretFileLimit)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}

// fingerprint tells secrets apart without showing them.
func fingerprint(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("card-gateway secret reference\n" + secret))
	return hex.EncodeToString(sum[:8])
}

// String names the place, never the secret.
func (s *SecretRef) String() string {
	if s.Env != "" {
		return "environment variable " + s.Env
	}
	return "file " + s.File
}

// parseSecretRef reads the tokens `env NAME` or `file PATH`.
func parseSecretRef(d *caddyfile.Dispenser) (*SecretRef, error) {
	if !d.NextArg() {
		return nil, d.Err("expected: env NAME, or file PATH; the secret itself never stands in the configuration")
	}
	kind := d.Val()
	if kind != "env" && kind != "file" {
		return nil, d.Err("expected env or file after the option; the secret itself never stands in the configuration")
	}
	if !d.NextArg() {
		return nil, d.Errf("expected a name or path after %s", kind)
	}
	if kind == "env" {
		return &SecretRef{Env: d.Val()}, nil
	}
	return &SecretRef{File: d.Val()}, nil
}
