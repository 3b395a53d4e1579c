//go:build unix

package cardunit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"pgregory.net/rapid"

	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

func TestScripts(t *testing.T) {
	scripts.Run(t, func(*testscript.Env) error { return nil }, nil)
}

// The unit that is shipped is understood, and its variables are those that systemd
// would set.
func TestShippedUnit(t *testing.T) {
	u, err := readUnit([]string{"../../ops/card-gateway.service"}, "/run/credentials")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"CARD_GATEWAY_MASTER_KEY_FILE=/run/credentials/master.key", "CARD_GATEWAY_DATA=/var/lib/card-gateway/store",
		"CARD_GATEWAY_AUDIT=/var/log/card-gateway/audit.log", "CADDY_ADMIN=unix//run/card-gateway/admin.sock",
		"XDG_DATA_HOME=/var/lib/card-gateway", "XDG_CONFIG_HOME=/var/lib/card-gateway", "RUNTIME_DIRECTORY=/run/card-gateway", "GOGC=400",
	} {
		if !slices.Contains(u.environment, want) {
			t.Errorf("no %s in %q", want, u.environment)
		}
	}
	if u.user != "card-gateway" || len(u.credentials) != 1 || u.credentials[0] != (credential{"master.key", "/etc/card-gateway/master.key"}) {
		t.Errorf("user %q, credentials %v", u.user, u.credentials)
	}
}

func TestUnitFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.service")
	for text, want := range map[string]string{
		"[Service]\nEnvironment=A=%x":             "specifier %x",
		"[Service]\nEnvironment=A=%":              "% at the end",
		"[Service]\nEnvironment=\"A=b":            "quote is not closed",
		"[Service]\nEnvironmentFile=/nowhere/env": "/nowhere/env",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readUnit([]string{path}, "/c"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Words that are quoted come back as they were.
func TestWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[a-zA-Z0-9=/ '	]*`), 0, 5).Draw(t, "words")
		quoted := make([]string, len(words))
		for i, word := range words {
			quoted[i] = `"` + word + `"`
		}
		got, err := splitWords(strings.Join(quoted, "  "))
		if err != nil || !slices.Equal(got, words) && len(got)+len(words) > 0 {
			t.Fatalf("%q became %q, %v", quoted, got, err)
		}
	})
}
