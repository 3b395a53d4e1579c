package keyadmin

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/keys"
)

func drain(c *adminCall) (int, any, error) {
	c.gateway.Drain()
	return c.nodeChanged(c.action)
}

func undrain(c *adminCall) (int, any, error) {
	c.gateway.Undrain()
	return c.nodeChanged(c.action)
}

const (
	defaultDebug = 15 * time.Minute
	maxDebug     = 24 * time.Hour
)

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
		if span, err = caddy.ParseDuration(req.For); err != nil || span <= 0 || span > maxDebug {
			return 0, nil, unasked{&keys.InvalidError{Field: "for", Reason: `want a duration such as "15m", at most 24h`}}
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
