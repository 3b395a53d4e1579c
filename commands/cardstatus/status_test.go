package cardstatus

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/admin"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/offenders"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
	"github.com/card-gateway/card-gateway/tests/adminserver"
	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

// Each script has a gateway that is ready at $ADMIN, one that is not at $UNREADY,
// and one whose keys cannot be counted at $UNCOUNTED.
func TestScripts(t *testing.T) {
	refusedAt := time.Unix(1_800_000_000, 0).UTC()
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
		env.Setenv("CARD_GATEWAY_TOKEN_FILE", path)
		serve := func(variable string, service *keys.Service, state *adminapi.State) {
			gateway := gatewayWith(state)
			gateway.Keys, gateway.Tokens = service, tokens
			server := adminserver.Serve(t, (&admin.API{Gateway: func() (*admin.Gateway, error) { return gateway, nil }}).Routes())
			env.Setenv(variable, strings.TrimPrefix(server.URL, "http://"))
		}
		service, _ := adminserver.Keys(t)
		serve("ADMIN", service, &adminapi.State{Ready: true})
		serve("UNREADY", service, &adminapi.State{
			Reason: "the store is down", Degraded: []string{"policy"}, Policy: "abc",
			Loads:     adminapi.Loads{At: refusedAt, RefusedAt: &refusedAt, Refusal: "no master key"},
			Offenders: []offenders.Entry{{Key: "ck_live_x", Tenant: "acme", Refused: 7, Reason: "rate_limited"}},
			Audit:     &auditfile.State{Path: "/var/log/audit.log", Seq: 41},
		})
		serve("UNCOUNTED", uncountable(t), &adminapi.State{Reason: "the store is down"})
		return nil
	}, nil)
}

// gatewayWith returns a gateway with a state that the calls of card-node change.
func gatewayWith(state *adminapi.State) *admin.Gateway {
	return &admin.Gateway{
		State:     func(context.Context) adminapi.State { return *state },
		AuditCall: func(keys.Change) {},
		Drain: func(until *time.Time) {
			state.Drained, state.DrainedUntil = until != nil, nil
			if until != nil && !until.IsZero() {
				state.DrainedUntil = until
			}
		},
		LogEachRequest: func(until time.Time) {
			state.DebugUntil = nil
			if !until.IsZero() {
				state.DebugUntil = &until
			}
		},
	}
}

// uncountable returns a key service whose store does not list its keys.
func uncountable(t testing.TB) *keys.Service {
	backend, err := file.Open(t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	return keys.New(unlisted{backend}, adminserver.Ring(t), keys.Options{})
}

type unlisted struct{ store.Backend }

func (unlisted) List(context.Context, string, int) (store.Page, error) {
	return store.Page{}, store.ErrUnavailable
}
