package keyadmin

import (
	"time"

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
