package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/card-gateway/card-gateway/bench/load"
)

// fewKeys is the largest number of keys that are made one by one in an embedded
// store. The store writes its whole file for each key, so ten thousand keys
// would take minutes.
const fewKeys = 200

// importKeys makes the keys through the admin API, eight at a time.
func (p *process) importKeys(ctx context.Context, keys []load.Key) error {
	admin := p.admin()
	defer admin.CloseIdleConnections()
	// The sites serve a moment before the configuration becomes the active one,
	// and the admin API needs the active one.
	if err := p.await(ctx, func() bool { return admin.call(ctx, http.MethodGet, "status", nil) == nil }); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, key := range keys {
		group.Go(func() error {
			return admin.call(ctx, http.MethodPost, "keys/import", map[string]any{
				"id": key.ID, "secret": key.Secret, "tenant": "bench", "scopes": []string{"cards:write"}, "allowed_ips": []string{"127.0.0.1"},
			})
		})
	}
	return group.Wait()
}

// An adminAPI is that of a gateway.
type adminAPI struct{ http.Client }

// admin returns the admin API of the process.
func (p *process) admin() *adminAPI {
	return &adminAPI{http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 8,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.path("admin"))
		},
	}}}
}

// call sends a request to it and returns an error unless it succeeds.
func (a *adminAPI) call(ctx context.Context, method, path string, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost/card-gateway/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := a.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("the admin API answers %s %s with %s: %s", method, path, answer.Status, text)
	}
	return err
}

// takeOver puts many keys at once into the embedded store of a gateway. They
// are made by a gateway on Redis, and then written into the file of the
// embedded store while its gateway is stopped. run starts it again.
func (p *process) takeOver(ctx context.Context, s *Setup, run func() error) error {
	records, err := s.records(ctx)
	if err != nil {
		return err
	}
	// This creates the file.
	if err := p.importKeys(ctx, []load.Key{{ID: "ck_bench_other", Secret: "the secret of another key"}}); err != nil {
		return err
	}
	if err := p.end(); err != nil {
		return err
	}
	if err := writeRecords(filepath.Join(p.path("data"), "keys.json"), records); err != nil {
		return fmt.Errorf("writing the key file: %w", err)
	}
	return run()
}

// A record is that of a key, with the seal as a field of it.
type record map[string]json.RawMessage

// writeRecords replaces the records in a key file, which has the seals beside them.
func writeRecords(path string, records []record) error {
	var file struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
		SHA256  string `json:"sha256"`
		Data    struct {
			Meta map[string]json.RawMessage `json:"meta"`
			Keys []record                   `json:"keys"`
		} `json:"data"`
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return err
	}
	file.Data.Keys = records
	for _, r := range records {
		var id string
		if err := json.Unmarshal(r["id"], &id); err != nil {
			return err
		}
		file.Data.Meta["seal:"+id] = r["seal"]
		delete(r, "seal")
	}
	data, err := json.Marshal(file.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, `{"format":%q,"version":%d,"sha256":"%x","data":%s}`+"\n", file.Format, file.Version, sha256.Sum256(data), data), 0o600)
}

// records returns the records of the keys as a store keeps them, their secrets
// sealed.
func (s *Setup) records(ctx context.Context) (records []record, err error) {
	from, err := gatewayKind{onRedis: true}.start(ctx, s)
	defer func() { err = errors.Join(err, from.Close()) }()
	if err != nil {
		return nil, err
	}
	for _, key := range s.Keys {
		doc, err := from.redis.client.HGet(ctx, "cg:{"+key.ID+"}:k", "doc").Bytes()
		var r record
		if err == nil {
			err = json.Unmarshal(doc, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the record of %s: %w", key.ID, err)
		}
		records = append(records, r)
	}
	return records, nil
}
