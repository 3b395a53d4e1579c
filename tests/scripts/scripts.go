// Package scripts runs the scripts of commands: each shows one thing that a user
// does, in testdata/script of the package that has the command.
package scripts

import (
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/rogpeppe/go-internal/testscript"
)

// Commands are what a package adds to the commands of its scripts, by name.
type Commands map[string]func(script *testscript.TestScript, negated bool, args []string)

// Main is the TestMain of a package with scripts. For them the binary of the
// test is card-gateway, with the commands that the package registers.
func Main(m *testing.M) {
	testscript.Main(m, map[string]func(){"card-gateway": caddycmd.Main})
}

// Run runs each script of the package; setup prepares its environment.
func Run(t *testing.T, setup func(*testscript.Env) error, more Commands) {
	t.Helper()
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: setup, Cmds: more})
}
