package keyadmin

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/offenders"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

// Each script has a key API of its own at $ADMIN.
func TestScripts(t *testing.T) {
	scripts.Run(t, func(env *testscript.Env) error {
		service, changes := keysForTest(env.T().(testing.TB))
		serve := func(state adminapi.State) *httptest.Server {
			gateway := gatewayForTest(service, changes, &state)
			return httptest.NewServer(adminMux(func() (*Gateway, error) { return gateway, nil }))
		}
		admin := serve(adminapi.State{Ready: true})
		env.Defer(admin.Close)
		env.Setenv("ADMIN", strings.TrimPrefix(admin.URL, "http://"))
		refusedAt := time.Unix(1_800_000_000, 0).UTC()
		unready := serve(adminapi.State{
			Reason: "the store is down", Degraded: []string{"policy"}, Policy: "abc", Loads: adminapi.Loads{At: refusedAt, RefusedAt: &refusedAt, Refusal: "no master key"},
			Offenders: []offenders.Entry{{Key: "ck_live_x", Tenant: "acme", Refused: 7, Reason: "rate_limited"}},
			Audit:     &auditfile.State{Path: "/var/log/audit.log", Seq: 41},
		})
		env.Defer(unready.Close)
		env.Setenv("UNREADY", strings.TrimPrefix(unready.URL, "http://"))
		service = uncountable(env.T().(testing.TB))
		uncounted := serve(adminapi.State{Reason: "the store is down"})
		env.Defer(uncounted.Close)
		env.Setenv("UNCOUNTED", strings.TrimPrefix(uncounted.URL, "http://"))
		env.Setenv("CARD_GATEWAY_TOKEN_FILE", filepath.Join(env.WorkDir, "the.token"))
		if err := os.WriteFile(filepath.Join(env.WorkDir, "the.token"), []byte("# made for the tests\ntester keys "+tokenForTest+"\n"), 0o600); err != nil {
			return err
		}
		env.Setenv("EMBEDDED", embeddedStore(env.T().(testing.TB)))
		return nil
	}, scripts.Commands{"capture": capture})
}

// uncountable returns a key service whose store does not list its keys.
func uncountable(t testing.TB) *keys.Service {
	backend, err := file.Open(t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return keys.New(unlisted{backend}, ringForTest(t), keys.Options{})
}

type unlisted struct{ store.Backend }

func (unlisted) List(context.Context, string, int) (store.Page, error) {
	return store.Page{}, store.ErrUnavailable
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
