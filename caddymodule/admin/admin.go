// Package admin serves the admin API, by which operators manage the API keys of a
// running gateway and see its state.
//
// Begin with [API], which lists the calls. What they answer and take is in package
// adminapi, their code in calls.go and copy.go; door.go decides who may make them.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"golang.org/x/time/rate"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/auditfile"
	"github.com/card-gateway/card-gateway/caddymodule/logqueue"
	"github.com/card-gateway/card-gateway/caddymodule/peek"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
	"github.com/card-gateway/card-gateway/store"
)

func init() {
	caddy.RegisterModule(API{})
}

// API manages keys on Caddy's admin endpoint, never on a public listener:
//
//	POST   /card-gateway/keys               make a key; the answer shows its secret, once
//	POST   /card-gateway/keys/import        import a key of an earlier system
//	POST   /card-gateway/keys/copy          copy the keys of an embedded store
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
//	GET    /card-gateway/recent             requests, latencies of issuers and refusals of the last 15 minutes
//	GET    /card-gateway/refusals           the last remembered refusals: ?key= &limit=
//	GET    /card-gateway/refusals/{id}      what is remembered of a refusal, by its request id
//	GET    /card-gateway/audit              the last lines of the audit file for a key: ?key= &limit=
//	GET    /card-gateway/jwks               the public keys of assertions, as a JWK set
//
// The API answers on a unix socket, where the socket's mode says who may call it,
// and on loopback or over TLS to callers with a token of the option admin_token.
// Caddy's own routes on the same endpoint, such as /load, know no token: anybody
// who reaches them owns the gateway. Bind it to a unix socket. An If-Match header with a key's revision makes a change conditional.
// The header X-Card-Gateway-Actor sets the actor in the audit log.
type API struct {
	// Gateway returns the running gateway. It is called for each request, because
	// after a failed reload the routes outlive their configuration.
	Gateway func() (*Gateway, error) `json:"-"`
	door    door
}

// CaddyModule returns the Caddy module information.
func (API) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.card_gateway", New: func() caddy.Module { return &API{Gateway: activeGateway} }}
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
func (a *API) Provision(ctx caddy.Context) error {
	logqueue.Open()
	context.AfterFunc(ctx.Context, func() {
		cause := context.Cause(ctx.Context)
		if !peek.LoadRefused(cause) {
			return
		}
		if gateway, err := a.Gateway(); err == nil {
			gateway.LoadRefused(cause)
		}
	})
	return nil
}

// A route of the admin API.
type route struct {
	pattern string
	action  string // names the call in the audit record
	call    func(*adminCall) (any, error)
	onSite  bool // everywhere
}

// Where a route exists: on Caddy's admin endpoint, and where the console is mounted.
const adminOnly, everywhere = false, true

// routes are all routes of the API.
var routes = []route{
	{"POST /card-gateway/keys", "create", withBody(createKey), everywhere},
	{"POST /card-gateway/keys/import", "import", withBody(importKey), adminOnly},
	{"POST /card-gateway/keys/copy", "copy", withBody(copyKeys), adminOnly},
	{"GET /card-gateway/keys", "list", listKeys, everywhere},
	{"GET /card-gateway/keys/{id}", "show", showKey, everywhere},
	{"GET /card-gateway/keys/{id}/limits", "show limits", showLimits, everywhere},
	{"PATCH /card-gateway/keys/{id}", "update", updateKey, adminOnly},
	{"POST /card-gateway/keys/{id}/disable", "disable", changeKey((*keys.Service).Disable), everywhere},
	{"POST /card-gateway/keys/{id}/enable", "enable", changeKey((*keys.Service).Enable), everywhere},
	{"POST /card-gateway/keys/{id}/unlock", "unlock", changeKey((*keys.Service).Unlock), everywhere},
	{"POST /card-gateway/keys/{id}/rotate", "rotate", rotateKey, everywhere},
	{"POST /card-gateway/keys/{id}/seal", "seal", withBody(sealKey), adminOnly},
	{"POST /card-gateway/keys/{id}/restore", "restore", withBody(restoreKey), adminOnly},
	{"DELETE /card-gateway/keys/{id}", "delete", deleteKey, adminOnly},
	{"POST /card-gateway/drain", "drain", drain, adminOnly},
	{"POST /card-gateway/undrain", "undrain", undrain, adminOnly},
	{"POST /card-gateway/log-level", "log level", withBody(logLevel), adminOnly},
	{"GET /card-gateway/status", "status", showStatus, everywhere},
	{"GET /card-gateway/recent", "show recent", showRecent, everywhere},
	{"GET /card-gateway/refusals", "list refusals", listRefusals, everywhere},
	{"GET /card-gateway/refusals/{id}", "show refusal", showRefusal, everywhere},
	{"GET /card-gateway/audit", "show audit", showTrail, everywhere},
	{"GET /card-gateway/jwks", "show jwks", showJWKSet, adminOnly},
}

// Routes returns the routes of the key API.
func (a *API) Routes() []caddy.AdminRoute {
	list := make([]caddy.AdminRoute, 0, len(routes))
	for i := range routes {
		list = append(list, caddy.AdminRoute{Pattern: routes[i].pattern, Handler: a.handler(&routes[i])})
	}
	return list
}

// handler runs the call of a route and writes its status and answer.
func (a *API) handler(route *route) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		gateway, err := a.Gateway()
		if err != nil {
			return err
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxAdminBody)
		c := &adminCall{Context: r.Context(), gateway: gateway, keys: gateway.Keys, r: r, id: r.PathValue("id"), action: route.action, status: http.StatusOK}
		c.who, err = a.door.authenticate(r, gateway.Tokens)
		c.by = keys.By{Actor: c.who.Name, Claimed: claimedActor(r), Revision: strings.Trim(strings.TrimSpace(r.Header.Get("If-Match")), `"`)}
		if err != nil {
			return adminError(c.auditIntruder(err))
		}
		answer, err := route.call(c)
		if err != nil {
			if early := (earlyError{}); errors.As(err, &early) {
				c.audit(err)
			}
			return adminError(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(c.status)
		_ = json.NewEncoder(w).Encode(answer) // an error means that the caller has left
		return nil
	})
}

// adminError adds the status to an error of a call. The text is for operators and
// holds no secret.
func adminError(err error) error {
	return caddy.APIError{HTTPStatus: adminapi.StatusOf(err), Err: err}
}

var (
	_ caddy.AdminRouter = (*API)(nil)
	_ caddy.Provisioner = (*API)(nil)
)

// A Gateway is the running gateway, as the admin API uses it.
type Gateway struct {
	Keys *keys.Service
	// Tokens open the admin API; nil: none does.
	Tokens *Tokens
	// State returns the state of the gateway.
	State func(context.Context) adminapi.State
	// AuditCall writes a line of the audit record for a call that never reached the
	// service of the keys.
	AuditCall func(keys.Change)
	// LoadRefused writes a line of the audit record for a configuration that was
	// refused.
	LoadRefused func(error)
	// OpenStore returns the backend of an option store, in JSON, to copy from.
	OpenStore func(option json.RawMessage) (store.Backend, error)
	// Drain makes /readyz answer 503 while requests are served; nil ends it. If it
	// has not ended at the time, it counts as forgotten; the zero time is the past.
	Drain func(until *time.Time)
	// LogEachRequest makes the log have a line for each request until a time; the
	// zero time ends it.
	LogEachRequest func(until time.Time)
	// Refusal returns what is remembered of the refusal with the request id.
	Refusal func(requestID string) (adminapi.Refusal, bool)
	// Refusals returns the newest remembered refusals of a key, at most limit, the
	// newest first; of all keys and of none for the empty id.
	Refusals func(keyID string, limit int) []adminapi.Refusal
	// Trail returns the newest lines of the audit file that name a key, at most limit.
	Trail func(keyID string, limit int) (auditfile.Trail, error)
	// Recent returns what the gateway did in the last fifteen minutes.
	Recent func() adminapi.Recent
	// KeyLimits returns the buckets of a key as they are now, and
	// [store.ErrNotFound] for a key that does not exist.
	KeyLimits func(ctx context.Context, keyID string) ([]adminapi.Limit, error)
	// JWKSet returns the public keys of assertions, as JSON.
	JWKSet func() []byte
}

const (
	maxActor      = 128
	maxAdminBody  = 256 << 10
	defaultListed = 100
)

// An adminCall is one request to the key API.
type adminCall struct {
	context.Context
	gateway *Gateway
	keys    *keys.Service
	r       *http.Request
	id      string // of the key in the path
	action  string // as in the audit record
	status  int    // of the answer, if there is no error
	who     adminapi.Caller
	by      keys.By
}

// claimedActor returns who the caller claims to be: the header X-Card-Gateway-Actor, at
// most maxActor bytes of it.
func claimedActor(r *http.Request) string {
	text := r.Header.Get(adminapi.ActorHeader)
	return strings.ToValidUTF8(text[:min(len(text), maxActor)], "")
}

// body reads the request's body. The error for a body of more than maxAdminBody
// bytes has the status 413.
func (c *adminCall) body() ([]byte, error) {
	doc, err := io.ReadAll(c.r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, earlyError{adminapi.Error{Status: http.StatusRequestEntityTooLarge, Err: fmt.Errorf("the request body is over %d bytes", tooLarge.Limit)}}
	}
	if err != nil {
		return nil, earlyError{adminapi.Error{Status: http.StatusBadRequest, Err: fmt.Errorf("reading the request body: %w", err)}}
	}
	return doc, nil
}

// withBody returns the call that decodes the request's body, which must be an object.
func withBody[T any](do func(*adminCall, T) (any, error)) func(*adminCall) (any, error) {
	return func(c *adminCall) (any, error) {
		var req T
		doc, err := c.body()
		if err != nil {
			return nil, err
		}
		if err := fields.Decode(doc, &req); err != nil {
			return nil, earlyError{err}
		}
		return do(c, req)
	}
}

// decodeAny reads the request's body, if it has one.
func (c *adminCall) decodeAny(into any) error {
	doc, err := c.body()
	if err != nil || len(doc) == 0 {
		return err
	}
	if err := fields.Decode(doc, into); err != nil {
		return earlyError{err}
	}
	return nil
}

// earlyError is the error of a call that was refused before the service of the keys
// was asked. The service reports all others to the audit record itself.
type earlyError struct{ cause error }

// Error returns the text of the cause.
func (u earlyError) Error() string { return u.cause.Error() }

// Unwrap returns the cause.
func (u earlyError) Unwrap() error { return u.cause }

// audit writes a line of the audit record for the call; err is why it was refused.
func (c *adminCall) audit(err error) {
	c.gateway.AuditCall(keys.Change{At: time.Now(), Actor: c.by.Actor, Claimed: c.by.Claimed, Action: c.action, KeyID: c.id, Err: err})
}

// Calls of strangers are written at this rate, so that they cannot drown the
// record; a line has the number of those that were left out before it.
var (
	strangers    = rate.NewLimiter(1, 20)
	skippedLines atomic.Uint64
)

// auditIntruder writes a line of the audit record for a caller without the right to make
// the call. It returns the error.
func (c *adminCall) auditIntruder(err error) error {
	cause := err
	if c.by.Actor == "" {
		c.by.Actor = "nobody"
		if !strangers.Allow() {
			skippedLines.Add(1)
			return err
		}
		if n := skippedLines.Swap(0); n > 0 {
			cause = fmt.Errorf("%w (%d more calls without a token before this one have no line)", err, n)
		}
	}
	c.audit(cause)
	return err
}

// SiteOptions are the options of the admin API on a site.
type SiteOptions struct {
	// Changes lets a token of the role keys change keys. Otherwise every token
	// may only read.
	Changes bool
}

// Site returns the part of the admin API that the console needs, as a handler for
// a site. Each call needs a token, also on a unix socket. Import, copy, update and
// deletion of keys, and the calls that change the gateway, exist only on the admin
// endpoint. Refusals are answered as there: {"error":"…"}.
func Site(gateway *Gateway, options SiteOptions) http.Handler {
	api := &API{Gateway: func() (*Gateway, error) { return gateway, nil }, door: door{site: true, readOnly: !options.Changes}}
	mux := http.NewServeMux()
	for i := range routes {
		if routes[i].onSite {
			handler := api.handler(&routes[i])
			mux.HandleFunc(routes[i].pattern, func(w http.ResponseWriter, r *http.Request) {
				if err := handler.ServeHTTP(w, r); err != nil {
					writeError(w, err)
				}
			})
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("the console does not have %s %s; the admin endpoint may", r.Method, r.URL.Path)})
	})
	return mux
}

// writeError answers an error as Caddy's admin endpoint does.
func writeError(w http.ResponseWriter, err error) {
	answer := caddy.APIError{HTTPStatus: http.StatusInternalServerError}
	_ = errors.As(err, &answer)
	answer.Message = err.Error()
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if answer.HTTPStatus == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(answer.HTTPStatus)
	_ = json.NewEncoder(w).Encode(answer)
}
