package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/card-gateway/card-gateway/bench/load"
)

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
