package issuer

import (
	"errors"
	"net/http"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/forward"
)

// issuerOf returns the address of the issuer that answered or failed, or "" if none
// was chosen.
func issuerOf(answer *forward.Answer, err error) string {
	if err == nil {
		return answer.Issuer
	}
	if failed := (*forward.Error)(nil); errors.As(err, &failed) {
		return failed.Issuer
	}
	return ""
}

// sendAnswer sends the issuer's answer to the client. If the answer breaks off,
// it ends the client's connection, so that the client does not take the part for
// the whole.
func sendAnswer(w http.ResponseWriter, answer *forward.Answer) {
	defer func() { _ = answer.Close() }()
	h := w.Header()
	delete(h, "Server") // the issuer's passes; Caddy's is in Via
	// The values of all headers are in one piece of memory.
	values := make([]string, len(answer.Fields))
	for i, field := range answer.Fields {
		if before, set := h[field.Name]; set {
			h[field.Name] = append(before, field.Value)
			continue
		}
		values[i] = field.Value
		h[field.Name] = values[i : i+1 : i+1]
	}
	h["Via"] = append(h["Via"], via)
	w.WriteHeader(answer.Status)
	flush := func() error { return http.NewResponseController(w).Flush() }
	if _, err := answer.CopyTo(w, flush); err != nil {
		_ = flush() // the part that has arrived
		panic(http.ErrAbortHandler)
	}
}

// forwardRefusal returns the refusal of a request that could not be forwarded.
// Its log text is the gateway's own, without bytes from outside.
func forwardRefusal(err error) *auth.Refusal {
	var failed *forward.Error
	if !errors.As(err, &failed) {
		return &auth.Refusal{Reason: auth.InternalError, Cause: err}
	}
	refusal := auth.Refuse(auth.UpstreamError, failed.Kind.String()+": "+failed.Error())
	refusal.RetryAfter, refusal.Unsent = failed.RetryAfter, !failed.Forwarded
	switch failed.Kind.Status() {
	case http.StatusInternalServerError:
		refusal.Reason = auth.InternalError
	case http.StatusGatewayTimeout:
		refusal.Reason = auth.UpstreamTimeout
	case forward.StatusClientGone:
		refusal.Reason = auth.ClientGone
	}
	if failed.Kind == forward.KindBusy {
		refusal.Reason = auth.OverBudget
	}
	return refusal
}
