package explaincmd

import (
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"card-gateway": caddycmd.Main})
}

// The scripts are in testdata/script, one for each thing that a user does. The
// requests are those of docs/signing.md, at the moment of its example.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CARD_SECRET", "test_secret_0123456789abcdef")
			return nil
		},
	})
}
