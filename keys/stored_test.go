package keys_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/keyring"
	"github.com/card-gateway/card-gateway/store"
	"github.com/card-gateway/card-gateway/store/file"
)

// The directory was written by version 0.1 at this time.
var writtenAt = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// oldData returns a copy of a data directory that version 0.1 wrote: a rotated
// key of its own, an imported key with every field, and a disabled one.
func oldData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join("testdata", "data-0.1")
	if err := os.Mkdir(filepath.Join(dir, "journal"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"keys.json", "journal/0000000000000001.journal"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestDataOfTheVersionBefore opens a directory that version 0.1 wrote. A stored
// record is read and written back byte for byte, so gateways of both versions
// can use one store.
func TestDataOfTheVersionBefore(t *testing.T) {
	dir := oldData(t)
	written, err := os.ReadFile(filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	backend, err := file.Open(dir, file.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = backend.Close() }()
	if err := backend.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Parse("bWFzdGVyIGtleSBvZiB0aGUgdGVzdHMsIDMyIGJ5dGU=")
	if err != nil {
		t.Fatal(err)
	}
	service := keys.New(backend, ring, keys.Options{Clock: func() time.Time { return writtenAt.Add(time.Hour) }})
	if err := service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer service.Stop()
	for id, secrets := range map[string]int{"old-1": 1, "old-2": 1, "ck_live_mrjrxva4f5zyqgrj6zrvya6pontnjurd": 2} {
		key, err := service.Lookup(t.Context(), id)
		if err != nil || len(key.Secrets) != secrets || key.Disabled != (id == "old-2") {
			t.Errorf("key %s: %+v, %v; want %d secrets", id, key, err, secrets)
		}
		record, err := backend.Get(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := json.Marshal(record); err != nil || !bytes.Contains(written, line) {
			t.Errorf("key %s is written as %s, %v; version 0.1 wrote it otherwise", id, line, err)
		}
	}
	checkOldFields(t, service)
}

func checkOldFields(t *testing.T, service *keys.Service) {
	t.Helper()
	view, err := service.Show(t.Context(), "old-1")
	if err != nil {
		t.Fatal(err)
	}
	want := store.Fields{
		Tenant: "acme", Description: "back office", Scopes: []string{"cards:*", "customers:read"}, AllowedIPs: []string{"192.0.2.0/24"},
		ExpiresAt: writtenAt.AddDate(10, 0, 0), Limits: map[string]json.RawMessage{"issue_card": json.RawMessage(`"60/1m burst 10"`)},
		CustomerVariant: "B", DebugUntil: writtenAt.Add(time.Hour),
	}
	got := store.Fields{
		Tenant: view.Tenant, Description: view.Description, Scopes: view.Scopes, AllowedIPs: view.AllowedIPs, ExpiresAt: *view.ExpiresAt,
		Limits: view.Limits, CustomerVariant: *view.CustomerVariant, DebugUntil: *view.DebugUntil,
	}
	gotJSON, _ := json.Marshal(got)
	wantJSON, _ := json.Marshal(want)
	if string(gotJSON) != string(wantJSON) || !view.Imported {
		t.Errorf("read %s; written was %s", gotJSON, wantJSON)
	}
}
