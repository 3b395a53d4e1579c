package keyadmin

import (
	"testing"

	"github.com/card-gateway/card-gateway/keys"

	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

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
	service := keys.New(backend, ringForTest(t), keys.Options{})
	defer service.Stop()
	for _, id := range []string{"old-1", "old-2"} {
		request := keys.ImportRequest{ID: id, Secret: "the secret of " + id, Fields: store.Fields{Tenant: "acme", Scopes: []string{"*"}}}
		if _, err := service.Import(t.Context(), request, keys.By{}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
