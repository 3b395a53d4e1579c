package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/adminapi"
	"github.com/card-gateway/card-gateway/caddymodule/version"
	"github.com/card-gateway/card-gateway/keys"
	"github.com/card-gateway/card-gateway/keys/fields"
)

func createKey(c *adminCall, req keys.CreateRequest) (any, error) {
	c.status = http.StatusCreated
	return c.keys.Create(c, req, c.by)
}

func importKey(c *adminCall, req keys.ImportRequest) (any, error) {
	c.status = http.StatusCreated
	return c.keys.Import(c, req, c.by)
}

// query reads the query of the request, which may hold each of the names once.
func (c *adminCall) query(names ...string) (url.Values, error) {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, adminapi.Error{Status: http.StatusBadRequest, Err: fmt.Errorf("the query %q cannot be read (%w); write name=value, with & between them and %%XX for other characters", c.r.URL.RawQuery, err)}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(names, name):
			return nil, &fields.InvalidError{Field: name, Reason: "unknown query parameter; there are " + strings.Join(names, ", ")}
		case len(query[name]) > 1:
			return nil, &fields.InvalidError{Field: name, Reason: "is given more than once; write it once"}
		}
	}
	return query, nil
}

func listKeys(c *adminCall) (any, error) {
	query, err := c.query("tenant", "status", "search", "cursor", "limit")
	if err != nil {
		return nil, err
	}
	q := keys.ListQuery{Tenant: query.Get("tenant"), Status: query.Get("status"), Search: query.Get("search"), Cursor: query.Get("cursor"), Limit: defaultListed}
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil {
			return nil, &fields.InvalidError{Field: "limit", Reason: "want a whole number"}
		}
	}
	views, next, err := c.keys.List(c, q)
	return adminapi.KeyPage{Keys: views, Next: next}, err
}

func showKey(c *adminCall) (any, error) { return c.keys.Show(c, c.id) }

func updateKey(c *adminCall) (any, error) {
	patch, err := c.body()
	if err != nil {
		return nil, err
	}
	return c.keys.Update(c, c.id, patch, c.by)
}

// changeKey returns the call for a change that needs only the key's id.
func changeKey(do func(*keys.Service, context.Context, string, keys.By) (keys.Changed, error)) func(*adminCall) (any, error) {
	return func(c *adminCall) (any, error) {
		return do(c.keys, c, c.id, c.by)
	}
}

func rotateKey(c *adminCall) (any, error) {
	var req adminapi.RotateRequest
	if err := c.decodeAny(&req); err != nil {
		return nil, err
	}
	how := keys.Rotation{Overlap: keys.DefaultOverlap, Forget: req.Forget}
	if req.Overlap != nil {
		var err error
		if how.Overlap, err = caddy.ParseDuration(*req.Overlap); err != nil {
			return nil, earlyError{&fields.InvalidError{Field: "overlap", Reason: `want a duration such as "24h", "7d" or "0"`}}
		}
	}
	return c.keys.Rotate(c, c.id, how, c.by)
}

func sealKey(c *adminCall, req adminapi.SealRequest) (any, error) {
	return c.keys.Seal(c, c.id, req.Digest, c.by)
}

func deleteKey(c *adminCall) (any, error) {
	d, err := c.keys.Delete(c, c.id, c.by)
	return adminapi.Deletion{ID: c.id, Deleted: true, Replicated: d.Replicated}, err
}

// showStatus answers with the state of everything; with ?keys=no the keys are not
// counted, which takes a read of all of them.
func showStatus(c *adminCall) (any, error) {
	query, err := c.query("keys")
	if err != nil {
		return nil, err
	}
	status := keys.Status{}
	if query.Get("keys") == "no" {
		status.Store = c.keys.StoreStatus(c)
	} else {
		status = c.keys.Status(c)
	}
	return adminapi.Status{Build: adminapi.Build(version.Current()), Status: status, State: c.gateway.State(c), Caller: c.who}, nil
}

func showRecent(c *adminCall) (any, error) { return c.gateway.Recent(), nil }

// showLimits answers with the buckets of a key.
func showLimits(c *adminCall) (any, error) {
	limits, err := c.gateway.KeyLimits(c, c.id)
	return map[string][]adminapi.Limit{"limits": limits}, err
}

const (
	defaultLast = 20
	maxLast     = 100
)

// lastOf reads the query of a call for the last things of a key, and how many are wanted.
func (c *adminCall) lastOf() (key string, limit int, err error) {
	limit = defaultLast
	query, err := c.query("key", "limit")
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxLast {
			err = &fields.InvalidError{Field: "limit", Reason: fmt.Sprintf("want 1 to %d", maxLast)}
		}
	}
	return query.Get("key"), limit, err
}

// listRefusals answers with the last remembered refusals, the newest first.
func listRefusals(c *adminCall) (any, error) {
	key, limit, err := c.lastOf()
	if err != nil {
		return nil, err
	}
	return map[string][]adminapi.Refusal{"refusals": c.gateway.Refusals(key, limit)}, nil
}

// showTrail answers with the last lines of the audit file for a key, the newest first.
func showTrail(c *adminCall) (any, error) {
	key, limit, err := c.lastOf()
	if err == nil && key == "" {
		err = &fields.InvalidError{Field: "key", Reason: "want the id of a key"}
	}
	if err != nil {
		return nil, err
	}
	return c.gateway.Trail(key, limit)
}

func showRefusal(c *adminCall) (any, error) {
	refusal, found := c.gateway.Refusal(c.id)
	if !found {
		return nil, adminapi.Error{Status: http.StatusNotFound, Err: errors.New("this gateway remembers no refusal with this request id: it keeps the last 512 that it explained, one a second for each key, until it stops")}
	}
	return refusal, nil
}

func showJWKSet(c *adminCall) (any, error) { return json.RawMessage(c.gateway.JWKSet()), nil }

func drain(c *adminCall) (any, error) {
	var req adminapi.DrainRequest
	if err := c.decodeAny(&req); err != nil {
		return nil, err
	}
	span, err := nodeSpan(req.For, 0)
	if err != nil {
		return nil, err
	}
	var until time.Time
	if span > 0 {
		until = time.Now().Add(span)
	}
	c.gateway.Drain(&until)
	return c.nodeChanged(c.action)
}

func undrain(c *adminCall) (any, error) {
	c.gateway.Drain(nil)
	return c.nodeChanged(c.action)
}

const (
	defaultDebug = 15 * time.Minute
	maxNodeSpan  = 24 * time.Hour
)

// nodeSpan reads how long a change of the node is meant to last; unset is that of no
// text.
func nodeSpan(text string, unset time.Duration) (time.Duration, error) {
	if text == "" {
		return unset, nil
	}
	span, err := caddy.ParseDuration(text)
	if err != nil || span <= 0 || span > maxNodeSpan {
		return 0, earlyError{&fields.InvalidError{Field: "for", Reason: `want a duration such as "15m", at most 24h`}}
	}
	return span, nil
}

func logLevel(c *adminCall, req adminapi.LogLevelRequest) (any, error) {
	span, err := nodeSpan(req.For, defaultDebug)
	if err != nil {
		return nil, err
	}
	switch req.Level {
	case "debug":
		c.gateway.LogEachRequest(time.Now().Add(span))
	case "info":
		c.gateway.LogEachRequest(time.Time{})
	default:
		return nil, earlyError{&fields.InvalidError{Field: "level", Reason: "want debug or info"}}
	}
	return c.nodeChanged("log " + req.Level)
}

// nodeChanged writes the line of the audit record, and answers with the state.
func (c *adminCall) nodeChanged(action string) (any, error) {
	c.action = action
	c.audit(nil)
	return c.gateway.State(c).Node, nil
}
