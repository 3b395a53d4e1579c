package caddymodule

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/ratelimit"
	"github.com/card-gateway/card-gateway/store"
)

// detail is error.details of a refusal that has one finding to name.
func detail(finding, message string) []auth.FieldError {
	return []auth.FieldError{{Finding: finding, Message: message}}
}

// details says for the answer to a signed caller which scope the operation
// needs, or which limit was reached.
func (p *passage) details(v *store.Verdict) []auth.FieldError {
	switch v.Reason {
	case auth.ScopeMissing:
		if p.info.Operation.Name == auth.OtherOperation {
			return detail("no_operation", "No operation of this gateway has this method and path; look for a typing mistake. Only a key with the scope * may use other paths")
		}
		return detail("scope", "The operation "+p.info.Operation.Name+" needs the scope "+p.request.Scope)
	case auth.RateLimited:
		state := &v.States[ratelimit.Tightest(v.States[:len(p.claim.Charges)])]
		return detail("limit", "The limit "+state.Bucket+" of this key is used up; it holds "+strconv.FormatInt(state.Limit, 10)+" at most")
	}
	return nil
}

// whereOperationsLie is error.details where a request has missed the gateway's
// paths.
var whereOperationsLie = detail("base_path", "The card API lies under /api/v1/; send the path with this base")

// typeFault returns what is wrong with the type of a body that ought to be JSON
// in UTF-8 without an encoding; nil for such a body, and for none.
func typeFault(r *http.Request) []auth.FieldError {
	if r.ContentLength == 0 {
		return nil
	}
	for _, encoding := range r.Header["Content-Encoding"] {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return detail("content_encoding", "The body has a Content-Encoding; send it as it is")
		}
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return detail("content_type", "Content-Type must be present exactly once; write application/json")
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") {
		return detail("content_type", "Content-Type is not that of JSON; write application/json")
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return detail("charset", "The charset of Content-Type is not utf-8; send UTF-8 and leave the charset out")
	}
	return nil
}

// jsonRequest reports whether the body is JSON in UTF-8 without an encoding,
// or there is no body.
func jsonRequest(r *http.Request) bool { return typeFault(r) == nil }
