package keyadmin

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"card-gateway": caddycmd.Main})
}

// The scripts are in testdata/script, one for each thing that a user does.
// Each has a key API of its own at $ADMIN.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			service, _ := keysForTest(env.T().(testing.TB))
			admin := httptest.NewServer(adminMux(func() (Gateway, error) { return gatewayForTest{service}, nil }))
			env.Defer(admin.Close)
			env.Setenv("ADMIN", strings.TrimPrefix(admin.URL, "http://"))
			env.Setenv("EMBEDDED", embeddedStore(env.T().(testing.TB)))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"capture": capture},
	})
}

// capture NAME REGEXP sets a variable to what the group of the expression
// matched in the output of the last command.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	match := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if match == nil {
		ts.Fatalf("%s matches nothing", args[1])
	}
	ts.Setenv(args[0], match[1])
}
