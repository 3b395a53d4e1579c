package caddymodule

import (
	"net/http"
	"time"

	"github.com/card-gateway/card-gateway/auth"
)

// unjudged answers requests that no card_auth has judged. It counts them under
// the operation other.
type unjudged struct {
	telemetry *telemetry
	other     *auth.Operation
}

func newUnjudged(app *App) unjudged {
	return unjudged{app.telemetry, app.rules.table.ByName(auth.OtherOperation)}
}

// refuse answers with a refusal.
func (u *unjudged) refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) error {
	takeRest(w, r, restOfRefused, restWait)
	start, info := time.Now(), new(requestInfo)
	r = info.begin(u.telemetry, r, nil)
	info.Client, _ = clientAddress(r)
	err := refuse(newResponseWriter(w, info), r, refusal)
	info.overhead = time.Since(start)
	info.count(u.other)
	traceOutcome(info)
	return err
}

// misplaced answers for a handler that needs a card_auth before it.
func (u *unjudged) misplaced(w http.ResponseWriter, r *http.Request, handler string) error {
	u.telemetry.log.Error(handler + " runs where card_auth has not run before; put card_auth in front of it")
	return u.refuse(w, r, auth.Refuse(auth.InternalError, handler+" without card_auth"))
}
