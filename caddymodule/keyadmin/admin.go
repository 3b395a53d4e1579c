// Package keyadmin manages the API keys of a running gateway: the admin API on
// Caddy's admin endpoint, and the command card-keys, which is a client of it.
package keyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
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
//	POST   /card-gateway/keys/seal          seal the records of new keys from now on
//	GET    /card-gateway/keys               list: ?tenant= &status= &search= &cursor= &limit=
//	GET    /card-gateway/keys/{id}          show
//	GET    /card-gateway/keys/{id}/limits   what is left of its limits
//	PATCH  /card-gateway/keys/{id}          change, by JSON merge patch
//	POST   /card-gateway/keys/{id}/disable  and /enable, /unlock, /rotate, /seal
//	POST   /card-gateway/keys/{id}/restore  put its record back from a backup
//	DELETE /card-gateway/keys/{id}          delete
//	POST   /card-gateway/drain              /readyz is 503; and /undrain
//	POST   /card-gateway/log-level          log each request for a time
//	GET    /card-gateway/status             store, version, keys by status, memory for bodies
//	GET    /card-gateway/refusals           the last remembered refusals: ?key= &limit=
//	GET    /card-gateway/refusals/{id}      what is remembered of a refusal, by its request id
//	GET    /card-gateway/jwks               the public keys of assertions, as a JWK set
//
// The API answers on a unix socket, where the socket's mode says who may call it,
// and on loopback or over TLS to callers with a token of the option admin_token.
// Caddy's own routes on the same endpoint, such as /load, know no token: anybody
// who reaches them owns the gateway. Bind it to a unix socket. An If-Match header with a key's revision makes a change conditional.
// The header X-Card-Gateway-Actor sets the actor in the audit log.
type AdminAPI struct {
	// gateway returns the running gateway. It is called for each request, because
	// after a failed reload the routes outlive their configuration.
	gateway func() (*Gateway, error)
	door    door
}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.card_gateway",
		New: func() caddy.Module { return &AdminAPI{gateway: activeGateway} },
	}
}

// activeGateway returns the gateway in Caddy's active configuration.
func activeGateway() (*Gateway, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("card_gateway")
	if err != nil {
		return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: "no gateway is configured here: the running configuration has no card_gateway block"}
	}
	if running, ok := app.(interface{ Admin() *Gateway }); ok {
		if gateway := running.Admin(); gateway != nil {
			return gateway, nil
		}
	}
	return nil, caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Message: "the gateway is not running yet"}
}

// Provision watches what becomes of the configuration that is being started. Caddy
// calls it for each one, because each has an admin endpoint of its own, and not for
// one that it only validates.
func (a *AdminAPI) Provision(ctx caddy.Context) error {
	logqueue.Open()
	context.AfterFunc(ctx.Context, func() {
		cause := context.Cause(ctx.Context)
		if !IsRefusal(cause) {
			return
		}
		if gateway, err := a.gateway(); err == nil {
			gateway.LoadRefused(cause)
		}
	})
	return nil
}

// IsRefusal tells the end of a configuration that Caddy refused from the end of
// one that another has replaced, and from none.
func IsRefusal(cause error) bool {
	return cause != nil && strings.HasPrefix(cause.Error(), "configuration error: ") || StartFailed(cause)
}

// StartFailed reports whether a configuration ended because it was in order and
// could not be started.
func StartFailed(cause error) bool {
	return cause != nil && strings.HasPrefix(cause.Error(), "configuration start error: ")
}

// A route of the admin API.
type route struct {
	pattern string
	action  string // names the call in the audit record
	call    func(*adminCall) (int, any, error)
	place   place
}

// place is where a route exists.
type place int

const (
	adminOnly  place = iota // on Caddy's admin endpoint
	everywhere              // where the console is mounted, too
)

// routes are all routes of the API.
var routes = []route{
	{"POST /card-gateway/keys", "create", createKey, everywhere},
	{"POST /card-gateway/keys/import", "import", importKey, adminOnly},
	{"POST /card-gateway/keys/copy", "copy", copyKeys, adminOnly},
	{"POST /card-gateway/keys/seal", "seal", beginSealing, adminOnly},
	{"GET /card-gateway/keys", "list", listKeys, everywhere},
	{"GET /card-gateway/keys/{id}", "show", showKey, everywhere},
	{"GET /card-gateway/keys/{id}/limits", "show limits", showLimits, everywhere},
	{"PATCH /card-gateway/keys/{id}", "update", updateKey, adminOnly},
	{"POST /card-gateway/keys/{id}/disable", "disable", changeKey((*keys.Service).Disable), everywhere},
	{"POST /card-gateway/keys/{id}/enable", "enable", changeKey((*keys.Service).Enable), everywhere},
	{"POST /card-gateway/keys/{id}/unlock", "unlock", changeKey((*keys.Service).Unlock), everywhere},
	{"POST /card-gateway/keys/{id}/rotate", "rotate", rotateKey, everywhere},
	{"POST /card-gateway/keys/{id}/seal", "seal", sealKey, adminOnly},
	{"POST /card-gateway/keys/{id}/restore", "restore", restoreKey, adminOnly},
	{"DELETE /card-gateway/keys/{id}", "delete", deleteKey, adminOnly},
	{"POST /card-gateway/drain", "drain", drain, adminOnly},
	{"POST /card-gateway/undrain", "undrain", undrain, adminOnly},
	{"POST /card-gateway/log-level", "log level", logLevel, adminOnly},
	{"GET /card-gateway/status", "status", showStatus, everywhere},
	{"GET /card-gateway/refusals", "list refusals", listRefusals, everywhere},
	{"GET /card-gateway/refusals/{id}", "show refusal", showRefusal, everywhere},
	{"GET /card-gateway/jwks", "show jwks", showJWKSet, adminOnly},
}

// Routes returns the routes of the key API.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	list := make([]caddy.AdminRoute, 0, len(routes))
	for i := range routes {
		list = append(list, caddy.AdminRoute{Pattern: routes[i].pattern, Handler: a.handler(&routes[i])})
	}
	return list
}

// handler runs the call of a route and writes its status and answer.
func (a *AdminAPI) handler(of *route) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		gateway, err := a.gateway()
		if err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		c := &adminCall{Context: r.Context(), gateway: gateway, keys: gateway.Keys, r: r, id: r.PathValue("id"), action: of.action}
		c.who, err = a.door.authenticate(r, gateway.Tokens)
		c.by = keys.By{Actor: c.who.name, Claimed: claimed(r), Revision: strings.Trim(strings.TrimSpace(r.Header.Get("If-Match")), `"`)}
		if err != nil {
			return c.shutOut(err)
		}
		status, answer, err := of.call(c)
		if err != nil {
			return adminError(c.auditUnasked(err))
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
	return caddy.APIError{HTTPStatus: Status(err), Err: err}
}

// Status returns the status with which the admin API answers an error.
func Status(err error) int {
	var answered caddy.APIError
	if errors.As(err, &answered) {
		return answered.HTTPStatus
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
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrConflict), errors.Is(err, keys.ErrSecretInUse),
		errors.Is(err, keys.ErrForged), errors.Is(err, keys.ErrNotAsApproved):
		status = http.StatusConflict
	case errors.Is(err, keys.ErrRevision):
		status = http.StatusPreconditionFailed
	case errors.Is(err, keys.ErrMasterKey), errors.Is(err, keys.ErrDamaged):
		status = http.StatusInternalServerError
	}
	return status
}

var (
	_ caddy.AdminRouter = (*AdminAPI)(nil)
	_ caddy.Provisioner = (*AdminAPI)(nil)
)
