package caddymodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// errorBody is the JSON form of every refusal: the published interface, Errors.
type errorBody struct {
	Success bool        `json:"success"`
	Error   errorDetail `json:"error"`
}

type errorDetail struct {
	Code    string            `json:"code"`
	Message string            `json:"message"`
	Details []auth.FieldError `json:"details,omitempty"`
	*auth.SignedView
	DocURL string `json:"doc_url,omitempty"`
}

// refuse answers with a refusal: status, headers and body of the answer, the
// outcome for metric and access log, and a line in the gateway's log. No other
// function does this, except responseWriter.replace. It always returns nil, so
// that Caddy neither answers again nor logs a second time.
func refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) error {
	info, page := infoFrom(r.Context()), ""
	if info != nil {
		info.refusal, page = refusal, info.telemetry.docsURL
		info.logRefusal(refusal)
	}
	writeRefusal(w, refusal, page)
	return nil
}

// writeRefusal writes the answer. The page is docs_url.
func writeRefusal(w http.ResponseWriter, refusal *auth.Refusal, page string) {
	status, body := refusal.Reason.Status(), refusalBody(refusal, page)
	h := w.Header()
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified", "Trailer"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	switch status {
	case http.StatusUnauthorized:
		h.Set("Www-Authenticate", `HMAC-SHA256 realm="card-gateway"`)
	case http.StatusMethodNotAllowed:
		h.Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE")
	case http.StatusRequestTimeout:
		h.Set("Connection", "close")
	}
	if refusal.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(ratelimit.RetryAfter(refusal.RetryAfter), 10))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// refusalBody returns the JSON of a refusal. Characters such as < are not
// escaped, because people read the text, and it is never HTML.
func refusalBody(refusal *auth.Refusal, page string) []byte {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	detail := errorDetail{Code: refusal.Reason.Code(), Message: refusal.Text(), DocURL: docURL(page, refusal)}
	if refusal.Shown || refusal.Reason.Status() != http.StatusUnauthorized {
		detail.Details, detail.SignedView = refusal.Details, refusal.Signed
	}
	if encoder.Encode(errorBody{Error: detail}) != nil {
		return []byte(`{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Internal error"}}`)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// storeRefusal returns the refusal for an error of the store: always 503, never
// 401 or 429.
func storeRefusal(err error) *auth.Refusal {
	return &auth.Refusal{Reason: auth.StoreUnavailable, RetryAfter: time.Second, Cause: err}
}

// refusalOf returns the refusal for the error of a later handler.
func refusalOf(err error) *auth.Refusal {
	var refusal *auth.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	var handlerError caddyhttp.HandlerError
	if errors.As(err, &handlerError) {
		switch status := handlerError.StatusCode; status {
		case 499:
			return &auth.Refusal{Reason: auth.ClientGone, Cause: err}
		case http.StatusGatewayTimeout:
			return &auth.Refusal{Reason: auth.UpstreamTimeout, Cause: err}
		case http.StatusBadGateway, http.StatusServiceUnavailable:
			return &auth.Refusal{Reason: auth.UpstreamError, Cause: err}
		case http.StatusRequestEntityTooLarge:
			return &auth.Refusal{Reason: auth.BodyTooLarge, Cause: err}
		}
	}
	return &auth.Refusal{Reason: auth.InternalError, Cause: err}
}
