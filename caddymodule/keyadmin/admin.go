// Package keyadmin manages the API keys of a running gateway: the admin API on
// Caddy's admin endpoint, and the command card-keys, which is a client of it.
package keyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/card-gateway/card-gateway/caddymodule/version"

	"github.com/card-gateway/card-gateway/keys"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/store"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// AdminAPI manages keys on Caddy's admin endpoint, and nowhere else:
//
//	POST   /card-gateway/keys               make a key; the answer shows its secret, once
//	POST   /card-gateway/keys/import        take over a key of an earlier system
//	POST   /card-gateway/keys/copy          take over the keys of an embedded store
//	GET    /card-gateway/keys               list: ?tenant= &status= &cursor= &limit=
//	GET    /card-gateway/keys/{id}          show
//	PATCH  /card-gateway/keys/{id}          change, by JSON merge patch
//	POST   /card-gateway/keys/{id}/disable  and /enable, /unlock, /rotate
//	DELETE /card-gateway/keys/{id}          forget
//	GET    /card-gateway/status             store, version, keys by status
//
// Whoever reaches the admin endpoint may do all of this; bind it to a unix
// socket. An If-Match header with a key's revision makes a change conditional.
// The header X-Card-Gateway-Actor names who is asking, for the audit log.
type AdminAPI struct {
	// keys returns the keys of the gateway that is running. It is asked for
	// each request, because after a failed reload the routes outlive the
	// configuration they were made for. Nil: of Caddy's active configuration.
	keys func() (*keys.Service, error)
}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.card_gateway",
		New: func() caddy.Module { return &AdminAPI{keys: activeKeys} },
	}
}

// A Gateway is what the admin API needs of the app card_gateway.
type Gateway interface {
	// Keys returns the service that keeps the keys; nil until the app is ready.
	Keys() *keys.Service
}

// activeKeys returns the keys of the gateway in Caddy's active configuration.
func activeKeys() (*keys.Service, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("card_gateway")
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: "no gateway is configured here: the running configuration has no card_gateway block"}
	}
	gateway, ok := app.(Gateway)
	if !ok || gateway.Keys() == nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Message: "the gateway is not running yet"}
	}
	return gateway.Keys(), nil
}

const (
	actorHeader   = "X-Card-Gateway-Actor"
	maxActor      = 128
	maxAdminBody  = 256 << 10
	defaultListed = 100
)

// An adminCall is one request to the key API.
type adminCall struct {
	context.Context
	keys *keys.Service
	r    *http.Request
	id   string // of the key in the path
	by   keys.By
}

// Routes returns the routes of the key API.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	route := func(pattern string, call func(*adminCall) (int, any, error)) caddy.AdminRoute {
		return caddy.AdminRoute{Pattern: pattern, Handler: a.handler(call)}
	}
	return []caddy.AdminRoute{
		route("POST /card-gateway/keys", createKey),
		route("POST /card-gateway/keys/import", importKey),
		route("POST /card-gateway/keys/copy", copyKeys),
		route("GET /card-gateway/keys", listKeys),
		route("GET /card-gateway/keys/{id}", showKey),
		route("PATCH /card-gateway/keys/{id}", updateKey),
		route("POST /card-gateway/keys/{id}/disable", changeKey((*keys.Service).Disable)),
		route("POST /card-gateway/keys/{id}/enable", changeKey((*keys.Service).Enable)),
		route("POST /card-gateway/keys/{id}/unlock", changeKey((*keys.Service).Unlock)),
		route("POST /card-gateway/keys/{id}/rotate", rotateKey),
		route("DELETE /card-gateway/keys/{id}", deleteKey),
		route("GET /card-gateway/status", showStatus),
	}
}

// handler runs a call and writes its status and answer.
func (a *AdminAPI) handler(call func(*adminCall) (int, any, error)) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		service, err := a.keys()
		if err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		c := &adminCall{Context: r.Context(), keys: service, r: r, id: r.PathValue("id")}
		c.by = keys.By{Actor: actorOf(r), Revision: strings.Trim(strings.TrimSpace(r.Header.Get("If-Match")), `"`)}
		status, answer, err := call(c)
		if err != nil {
			return adminError(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // the caller is gone: nobody is left to tell
		return nil
	})
}

// actorOf says who is asking: the actor header, else the remote address.
func actorOf(r *http.Request) string {
	actor := r.Header.Get(actorHeader)
	if actor == "" || len(actor) > maxActor || strings.ContainsFunc(actor, unicode.IsControl) {
		return "admin API " + r.RemoteAddr
	}
	return actor
}

// body reads the request's body, up to a bound.
func (c *adminCall) body() ([]byte, error) {
	doc, err := io.ReadAll(c.r.Body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, caddy.APIError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: err, Message: fmt.Sprintf("the request body is over %d bytes", tooLarge.Limit)}
	case err != nil:
		return nil, caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf("reading the request body: %w", err)}
	}
	return doc, nil
}

func (c *adminCall) decode(into any) error {
	doc, err := c.body()
	if err != nil {
		return err
	}
	return keys.Decode(doc, into)
}

// adminError gives an error of the key service its status. The text is meant
// for operators and holds no secret.
func adminError(err error) error {
	var answered caddy.APIError
	if errors.As(err, &answered) {
		return answered
	}
	status := http.StatusServiceUnavailable
	var invalid *keys.InvalidError
	switch {
	case errors.As(err, &invalid):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, keys.ErrMalformed):
		status = http.StatusBadRequest
	case errors.Is(err, store.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrConflict), errors.Is(err, keys.ErrSecretInUse):
		status = http.StatusConflict
	case errors.Is(err, keys.ErrRevision):
		status = http.StatusPreconditionFailed
	case errors.Is(err, keys.ErrMasterKey), errors.Is(err, keys.ErrDamaged):
		status = http.StatusInternalServerError
	}
	return caddy.APIError{HTTPStatus: status, Err: err}
}

func createKey(c *adminCall) (int, any, error) {
	var req keys.CreateRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	changed, err := c.keys.Create(c, req, c.by)
	return http.StatusCreated, changed, err
}

func importKey(c *adminCall) (int, any, error) {
	var req keys.ImportRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	changed, err := c.keys.Import(c, req, c.by)
	return http.StatusCreated, changed, err
}

// keyPage is one page of a listing.
type keyPage struct {
	Keys []keys.View `json:"keys"`
	Next string      `json:"next,omitempty"` // the cursor of the next page; absent at the end
}

func listKeys(c *adminCall) (int, any, error) {
	query := c.r.URL.Query()
	q := keys.ListQuery{Tenant: query.Get("tenant"), Status: query.Get("status"), Cursor: query.Get("cursor"), Limit: defaultListed}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil {
			return 0, nil, &keys.InvalidError{Field: "limit", Reason: "want a whole number"}
		}
		q.Limit = limit
	}
	for name := range query {
		switch name {
		case "tenant", "status", "cursor", "limit":
		default:
			return 0, nil, &keys.InvalidError{Field: name, Reason: "unknown query parameter; there are tenant, status, cursor and limit"}
		}
	}
	views, next, err := c.keys.List(c, q)
	return http.StatusOK, keyPage{Keys: views, Next: next}, err
}

func showKey(c *adminCall) (int, any, error) {
	view, err := c.keys.Show(c, c.id)
	return http.StatusOK, view, err
}

func updateKey(c *adminCall) (int, any, error) {
	patch, err := c.body()
	if err != nil {
		return 0, nil, err
	}
	changed, err := c.keys.Update(c, c.id, patch, c.by)
	return http.StatusOK, changed, err
}

// changeKey makes a route of a change that takes nothing but the key.
func changeKey(do func(*keys.Service, context.Context, string, keys.By) (keys.Changed, error)) func(*adminCall) (int, any, error) {
	return func(c *adminCall) (int, any, error) {
		changed, err := do(c.keys, c, c.id, c.by)
		return http.StatusOK, changed, err
	}
}

func rotateKey(c *adminCall) (int, any, error) {
	req := struct {
		Overlap *string `json:"overlap"`
		Forget  bool    `json:"forget"`
	}{}
	doc, err := c.body()
	if err != nil {
		return 0, nil, err
	}
	if len(doc) > 0 {
		if err := keys.Decode(doc, &req); err != nil {
			return 0, nil, err
		}
	}
	how := keys.Rotation{Overlap: keys.DefaultOverlap, Forget: req.Forget}
	if req.Overlap != nil {
		if how.Overlap, err = parseOverlap(*req.Overlap); err != nil {
			return 0, nil, err
		}
	}
	changed, err := c.keys.Rotate(c, c.id, how, c.by)
	return http.StatusOK, changed, err
}

// parseOverlap reads a duration such as "24h", "7d" or "0".
func parseOverlap(text string) (time.Duration, error) {
	overlap, err := caddy.ParseDuration(text)
	if err != nil {
		return 0, &keys.InvalidError{Field: "overlap", Reason: `want a duration such as "24h", "7d" or "0"`}
	}
	return overlap, nil
}

// deletion is the answer to DELETE.
type deletion struct {
	ID         string `json:"id"`
	Deleted    bool   `json:"deleted"`
	Replicated *bool  `json:"replicated,omitempty"`
}

func deleteKey(c *adminCall) (int, any, error) {
	d, err := c.keys.Delete(c, c.id, c.by)
	return http.StatusOK, deletion{ID: c.id, Deleted: true, Replicated: d.Replicated}, err
}

// gatewayStatus is the answer of GET /card-gateway/status.
type gatewayStatus struct {
	version.Build
	keys.Status
}

func showStatus(c *adminCall) (int, any, error) {
	return http.StatusOK, gatewayStatus{Build: version.This(), Status: c.keys.Status(c)}, nil
}

var _ caddy.AdminRouter = (*AdminAPI)(nil)
