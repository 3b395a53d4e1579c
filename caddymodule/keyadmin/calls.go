package keyadmin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/caddymodule/version"
	"github.com/card-gateway/card-gateway/keys"
)

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
	q := keys.ListQuery{Tenant: query.Get("tenant"), Status: query.Get("status"), Search: query.Get("search"), Cursor: query.Get("cursor"), Limit: defaultListed}
	if text := query.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil {
			return 0, nil, &keys.InvalidError{Field: "limit", Reason: "want a whole number"}
		}
		q.Limit = limit
	}
	for name := range query {
		switch name {
		case "tenant", "status", "search", "cursor", "limit":
		default:
			return 0, nil, &keys.InvalidError{Field: name, Reason: "unknown query parameter; there are tenant, status, search, cursor and limit"}
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

// changeKey returns the call for a change that needs only the key's id.
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
	if err := c.decodeAny(&req); err != nil {
		return 0, nil, err
	}
	how := keys.Rotation{Overlap: keys.DefaultOverlap, Forget: req.Forget}
	if req.Overlap != nil {
		var err error
		if how.Overlap, err = parseOverlap(*req.Overlap); err != nil {
			return 0, nil, unasked{err}
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

// sealing is the answer to the beginning of sealing.
type sealing struct {
	Sealing bool `json:"sealing"`
}

func beginSealing(c *adminCall) (int, any, error) {
	if err := c.keys.BeginSealing(c); err != nil {
		return 0, nil, unasked{err}
	}
	c.gateway.AuditCall(keys.Change{At: time.Now(), Actor: c.by.Actor, Claimed: c.by.Claimed, Action: c.action})
	return http.StatusOK, sealing{true}, nil
}

func sealKey(c *adminCall) (int, any, error) {
	var req struct {
		Digest string `json:"digest"`
	}
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	changed, err := c.keys.Seal(c, c.id, req.Digest, c.by)
	return http.StatusOK, changed, err
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
	State
	Caller callerView `json:"caller"`
}

// A callerView is what the caller of the admin API is to it.
type callerView struct {
	Name string `json:"name"` // of its token, else unix: and the path of the socket
	Role Role   `json:"role"` // keys: it may change keys here
}

// showStatus answers with the state of everything; with ?keys=no the keys are not
// counted, which takes a read of all of them.
func showStatus(c *adminCall) (int, any, error) {
	status := keys.Status{}
	if c.r.URL.Query().Get("keys") == "no" {
		status.Store = c.keys.StoreStatus(c)
	} else {
		status = c.keys.Status(c)
	}
	return http.StatusOK, gatewayStatus{
		Build: version.This(), Status: status, State: c.gateway.State(c),
		Caller: callerView{c.who.name, c.who.role},
	}, nil
}

// showLimits answers with the buckets of a key.
func showLimits(c *adminCall) (int, any, error) {
	limits, err := c.gateway.KeyLimits(c, c.id)
	return http.StatusOK, map[string][]Limit{"limits": limits}, err
}

const (
	defaultRefusals = 20
	maxRefusals     = 100
)

// listRefusals answers with the last remembered refusals, the newest first.
func listRefusals(c *adminCall) (int, any, error) {
	query, limit := c.r.URL.Query(), defaultRefusals
	if text := query.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxRefusals {
			return 0, nil, &keys.InvalidError{Field: "limit", Reason: fmt.Sprintf("want 1 to %d", maxRefusals)}
		}
	}
	return http.StatusOK, map[string][]Refusal{"refusals": c.gateway.Refusals(query.Get("key"), limit)}, nil
}

func showRefusal(c *adminCall) (int, any, error) {
	refusal, found := c.gateway.Refusal(c.id)
	if !found {
		return 0, nil, caddy.APIError{
			HTTPStatus: http.StatusNotFound,
			Message:    "this gateway remembers no refusal with this request id: it keeps the last 512 that it explained, one a second for each key, until it stops",
		}
	}
	return http.StatusOK, refusal, nil
}

func showJWKSet(c *adminCall) (int, any, error) {
	return http.StatusOK, json.RawMessage(c.gateway.JWKSet()), nil
}

func drain(c *adminCall) (int, any, error) {
	var req struct {
		For string `json:"for"` // how long the work takes
	}
	if err := c.decodeAny(&req); err != nil {
		return 0, nil, err
	}
	var until time.Time
	if req.For != "" {
		span, err := nodeSpan(req.For)
		if err != nil {
			return 0, nil, err
		}
		until = time.Now().Add(span)
	}
	c.gateway.Drain(&until)
	return c.nodeChanged(c.action)
}

func undrain(c *adminCall) (int, any, error) {
	c.gateway.Drain(nil)
	return c.nodeChanged(c.action)
}

const (
	defaultDebug = 15 * time.Minute
	maxNodeSpan  = 24 * time.Hour
)

// nodeSpan reads how long a change of the node is meant to last.
func nodeSpan(text string) (time.Duration, error) {
	span, err := caddy.ParseDuration(text)
	if err != nil || span <= 0 || span > maxNodeSpan {
		return 0, unasked{&keys.InvalidError{Field: "for", Reason: `want a duration such as "15m", at most 24h`}}
	}
	return span, nil
}

// logLevelRequest is the body of a change of the log's level.
type logLevelRequest struct {
	Level string `json:"level"` // debug or info
	For   string `json:"for"`   // how long debug holds
}

func logLevel(c *adminCall) (int, any, error) {
	var req logLevelRequest
	if err := c.decode(&req); err != nil {
		return 0, nil, err
	}
	span := defaultDebug
	if req.For != "" {
		var err error
		if span, err = nodeSpan(req.For); err != nil {
			return 0, nil, err
		}
	}
	switch req.Level {
	case "debug":
		c.gateway.LogEachRequest(time.Now().Add(span))
	case "info":
		c.gateway.LogEachRequest(time.Time{})
	default:
		return 0, nil, unasked{&keys.InvalidError{Field: "level", Reason: "want debug or info"}}
	}
	return c.nodeChanged("log " + req.Level)
}

// nodeChanged writes the line of the audit record, and answers with the state.
func (c *adminCall) nodeChanged(action string) (int, any, error) {
	c.gateway.AuditCall(keys.Change{At: time.Now(), Actor: c.by.Actor, Claimed: c.by.Claimed, Action: action})
	return http.StatusOK, c.gateway.State(c).Node, nil
}
