package cardkeys

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/admin"
	_ "github.com/card-gateway/card-gateway/commands/cardstatus" // which a script asks for the number of sealed keys
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
	"github.com/card-gateway/card-gateway/tests/adminserver"
	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

// Each script has a key API of its own at $ADMIN, and one on a store of version 0.1 at
// $OLD_ADMIN.
func TestScripts(t *testing.T) {
	scripts.Run(t, func(env *testscript.Env) error {
		t := env.T().(testing.TB)
		path := filepath.Join(env.WorkDir, "the.token")
		if err := os.WriteFile(path, []byte("# made for the tests\ntester keys 0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
			return err
		}
		tokens, err := admin.ReadTokens(path)
		if err != nil {
			return err
		}
		for name, start := range map[string]func(testing.TB) (*keys.Service, *[]keys.Change){"ADMIN": adminserver.Keys, "OLD_ADMIN": adminserver.OldKeys} {
			service, _ := start(t)
			gateway := &admin.Gateway{
				Keys: service, Tokens: tokens,
				State:     func(context.Context) adminapi.State { return adminapi.State{Ready: true} },
				AuditCall: func(keys.Change) {},
				OpenStore: func(json.RawMessage) (store.Backend, error) { return nil, errors.New("no such store") },
			}
			server := adminserver.Serve(t, (&admin.API{Gateway: func() (*admin.Gateway, error) { return gateway, nil }}).Routes())
			env.Setenv(name, strings.TrimPrefix(server.URL, "http://"))
		}
		env.Setenv("CARD_GATEWAY_TOKEN_FILE", path)
		env.Setenv("EMBEDDED", embeddedStore(t))
		return nil
	}, scripts.Commands{"capture": capture})
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

func TestLimitFlags(t *testing.T) {
	for _, bad := range []string{"", "total", "=1/1s", "total=", " = "} {
		if got, err := limitFlags([]string{bad}); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
	if got, err := limitFlags([]string{"a=1/1s", "a=2/1s"}); err == nil {
		t.Errorf("one name twice: %v", got)
	}
}

// embeddedStore returns the directory of a store with two keys, closed, under
// the master key of the tests.
func embeddedStore(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	backend, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = backend.Close() }()
	if err := backend.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	service := keys.New(backend, adminserver.Ring(t), keys.Options{})
	defer service.Stop()
	for _, id := range []string{"old-1", "old-2"} {
		request := keys.ImportRequest{ID: id, Secret: "the secret of " + id, Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}
		if _, err := service.Import(t.Context(), request, keys.By{}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
