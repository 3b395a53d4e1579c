// Package adminserver serves the routes of the admin API to the tests of the API and
// of its clients, as Caddy's admin endpoint does, and has a key service for them.
package adminserver

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store/file"
)

// Serve serves routes until the test ends, and answers errors as Caddy does.
func Serve(t testing.TB, routes []caddy.AdminRoute) *httptest.Server {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			err := route.Handler.ServeHTTP(w, r)
			if err == nil {
				return
			}
			answer, ok := err.(caddy.APIError) //nolint:errorlint // Caddy looks no deeper
			if !ok {
				answer = caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err}
			}
			if answer.Message == "" {
				answer.Message = answer.Err.Error()
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer.HTTPStatus)
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// Ring returns the master key of the tests.
func Ring(t testing.TB) *keyring.Ring {
	t.Helper()
	ring, err := keyring.Parse("AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=")
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// Keys returns a key service on a new store, and the changes that it reports.
func Keys(t testing.TB) (*keys.Service, *[]keys.Change) {
	t.Helper()
	return startKeys(t, openStore(t))
}

// OldKeys is Keys on a store of version 0.1, whose records have no seal.
func OldKeys(t testing.TB) (*keys.Service, *[]keys.Change) {
	t.Helper()
	backend, ids := openStore(t), make([]byte, 32)
	rand.Read(ids)
	if _, err := backend.PutMeta(t.Context(), "id_key", Ring(t).Seal(ids, "id_key")); err != nil {
		t.Fatal(err)
	}
	return startKeys(t, backend)
}

func openStore(t testing.TB) *file.Store {
	t.Helper()
	backend, err := file.Open(t.TempDir(), file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backend.Close() })
	if err := backend.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return backend
}

func startKeys(t testing.TB, backend *file.Store) (*keys.Service, *[]keys.Change) {
	t.Helper()
	changes := new([]keys.Change)
	service := keys.New(backend, Ring(t), keys.Options{OnChange: func(c keys.Change) { *changes = append(*changes, c) }})
	if err := service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Stop)
	return service, changes
}
