package cardexplain

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/card-gateway/card-gateway/tests/scripts"
)

func TestMain(m *testing.M) { scripts.Main(m) }

// The scripts are in testdata/script, one for each thing that a user does. The
// requests are those of docs/signing.md, at the moment of its example.
func TestScripts(t *testing.T) {
	scripts.Run(t, func(env *testscript.Env) error {
		env.Setenv("CARD_SECRET", "test_secret_0123456789abcdef")
		return nil
	}, nil)
}
