package keyadmin

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/keys"
)

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
