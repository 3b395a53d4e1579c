package keyadmin

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/card-gateway/card-gateway/auth"
)

// A Refusal is what a gateway remembers of a request that it has refused. It
// holds no secret, no signature and no body.
type Refusal struct {
	RequestID string            `json:"request_id"`
	At        time.Time         `json:"at"`
	Status    int               `json:"status"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Operation string            `json:"operation,omitempty"`
	KeyID     string            `json:"key_id,omitempty"`
	Tenant    string            `json:"tenant,omitempty"`
	Client    string            `json:"client_ip,omitempty"`
	Detail    string            `json:"detail,omitempty"` // as in the log
	Findings  []auth.FieldError `json:"findings,omitempty"`
	auth.SignedView
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
