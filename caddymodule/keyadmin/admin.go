// Package keyadmin manages the API keys of a running gateway: the admin API on
// Caddy's admin endpoint, and the command card-keys, which is a client of it.
package keyadmin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/store"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// AdminAPI manages keys on Caddy's admin endpoint, never on a public listener:
//
//	POST   /card-gateway/keys               make a key; the answer shows its secret, once
//	POST   /card-gateway/keys/import        import a key of an earlier system
//	POST   /card-gateway/keys/copy          copy the keys of an embedded store
//	GET    /card-gateway/keys               list: ?tenant= &status= &cursor= &limit=
//	GET    /card-gateway/keys/{id}          show
//	PATCH  /card-gateway/keys/{id}          change, by JSON merge patch
//	POST   /card-gateway/keys/{id}/disable  and /enable, /unlock, /rotate
//	DELETE /card-gateway/keys/{id}          delete
//	GET    /card-gateway/status             store, version, keys by status, memory for bodies
//	GET    /card-gateway/refusals/{id}      what is remembered of a refusal, by its request id
//	GET    /card-gateway/jwks               the public keys of assertions, as a JWK set
//
// Anybody who reaches the admin endpoint may do all of this; bind it to a unix
// socket. An If-Match header with a key's revision makes a change conditional.
// The header X-Card-Gateway-Actor sets the actor in the audit log.
type AdminAPI struct {
	// gateway returns the running gateway. It is called for each request, because
	// after a failed reload the routes outlive their configuration.
	gateway func() (Gateway, error)
}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.card_gateway",
		New: func() caddy.Module { return &AdminAPI{gateway: activeGateway} },
	}
}

// activeGateway returns the gateway in Caddy's active configuration.
func activeGateway() (Gateway, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("card_gateway")
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: "no gateway is configured here: the running configuration has no card_gateway block"}
	}
	gateway, ok := app.(Gateway)
	if !ok || gateway.Keys() == nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Message: "the gateway is not running yet"}
	}
	return gateway, nil
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
		route("GET /card-gateway/refusals/{id}", showRefusal),
		route("GET /card-gateway/jwks", showJWKSet),
	}
}

// handler runs a call and writes its status and answer.
func (a *AdminAPI) handler(call func(*adminCall) (int, any, error)) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		gateway, err := a.gateway()
		if err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		c := &adminCall{Context: r.Context(), gateway: gateway, keys: gateway.Keys(), r: r, id: r.PathValue("id")}
		c.by = keys.By{Actor: actorOf(r), Revision: strings.Trim(strings.TrimSpace(r.Header.Get("If-Match")), `"`)}
		status, answer, err := call(c)
		if err != nil {
			return adminError(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer) // an error means that the caller has left
		return nil
	})
}

// adminError adds the status to an error of the key service. The text is for
// operators and holds no secret.
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

var _ caddy.AdminRouter = (*AdminAPI)(nil)
