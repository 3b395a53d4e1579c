package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
)

// errorBody is the JSON form of every refusal: the published interface, Errors.
type errorBody struct {
	Success bool        `json:"success"`
	Error   errorDetail `json:"error"`
}

type errorDetail struct {
	Code    string        `json:"code"`
	Message string        `json:"message"`
	Details []detailEntry `json:"details,omitempty"`
	*auth.SignedView
	*fate
	DocURL string `json:"doc_url,omitempty"`
}

type detailEntry struct {
	auth.FieldError
	DocURL string `json:"doc_url,omitempty"` // of its finding
}

// The fate of a refused request tells its client what a repetition may do. Where the
// answer is signed, so is this.
type fate struct {
	Accepted  *bool `json:"accepted,omitempty"`  // it has spent its nonce; nil: not known
	Forwarded *bool `json:"forwarded,omitempty"` // the issuer may have seen it; nil: it was not accepted
}

// fate returns what is known of the request, or nil.
func (i *Info) fate() *fate {
	if i == nil || i.Taken == TakenUnknown {
		return nil
	}
	taken, forwarded := i.Taken == TakenOnce, i.forwarded()
	if !taken {
		return &fate{Accepted: &taken}
	}
	return &fate{Accepted: &taken, Forwarded: &forwarded}
}

// Refuse answers with a refusal and logs it. It always returns nil, so that Caddy
// neither answers again nor logs a second time.
func Refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) error {
	info := From(r.Context())
	info.WriteRefusal(w, refusal)
	info.LogRefusal(refusal)
	return nil
}

// WriteRefusal gives a refusal its face: status, headers and body of the answer, and
// the outcome for metric and access log. No other function does this. The info is nil
// where no card_auth has run.
func (i *Info) WriteRefusal(w http.ResponseWriter, refusal *auth.Refusal) {
	page := ""
	if i != nil {
		i.Refusal, page = refusal, i.Reporter.DocsURL
	}
	status, body := refusal.Reason.Status(), refusalBody(refusal, i, page)
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
	if own, is := w.(*Writer); is {
		own.Announce(body)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// refusalBody returns the JSON of a refusal. Characters such as < are not
// escaped, because people read the text, and it is never HTML.
func refusalBody(refusal *auth.Refusal, i *Info, page string) []byte {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	detail := errorDetail{Code: refusal.Reason.Code(), Message: refusal.Text(), DocURL: docURL(page, headingOf(refusal))}
	published := refusal.Reason.Status() == http.StatusUnauthorized
	if refusal.Shown || !published {
		detail.SignedView = refusal.Signed
		for _, entry := range refusal.Details {
			detail.Details = append(detail.Details, detailEntry{entry, docURL(page, entry.Finding)})
		}
	}
	if !published {
		detail.fate = i.fate()
	}
	if encoder.Encode(errorBody{Error: detail}) != nil {
		return []byte(`{"success":false,"error":{"code":"INTERNAL_ERROR","message":"Internal error"}}`)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n"))
}

// RefusalOf returns the refusal for the error of a later handler.
func RefusalOf(err error) *auth.Refusal {
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
			return &auth.Refusal{Reason: auth.UpstreamError, Unsent: errors.As(err, new(reverseproxy.DialError)), Cause: err}
		case http.StatusRequestEntityTooLarge:
			return &auth.Refusal{Reason: auth.BodyTooLarge, Cause: err}
		}
	}
	return &auth.Refusal{Reason: auth.InternalError, Cause: err}
}

// Detail is error.details of a refusal that has one finding to name.
func Detail(finding, message string) []auth.FieldError {
	return []auth.FieldError{{Finding: finding, Message: message}}
}

// WhereOperationsLie is error.details where a request has missed the gateway's
// paths.
var WhereOperationsLie = Detail("base_path", "The card API lies under /api/v1/; send the path with this base")

// headingOf returns the heading of a refusal in docs/errors.md: its message, for the
// published ones of 401, or its code.
func headingOf(refusal *auth.Refusal) string {
	if refusal.Reason.Status() == http.StatusUnauthorized && refusal.Message == "" {
		return refusal.Reason.Message()
	}
	return refusal.Reason.Code()
}

// docURL returns the page with the anchor of the heading; "" without one of them.
func docURL(page, heading string) string {
	if page == "" || heading == "" {
		return ""
	}
	return page + "#" + anchor(heading)
}

// anchor returns the name that GitHub and others give a heading of the text.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		default:
			return -1
		}
	}, strings.ToLower(heading))
}
