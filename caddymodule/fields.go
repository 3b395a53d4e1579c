package caddymodule

import (
	"net/http"
	"strings"

	"github.com/card-gateway/card-gateway/auth"
)

// checkFields refuses a request of HTTP/2 or 3 that is malformed and that the
// servers let pass: with a Host that is not the :authority, or with blanks around a
// value (RFC 9113, sections 8.2.1 and 8.3.1; RFC 9110, section 5.5). HTTP/1 has one
// Host, and its blanks belong to no value.
func checkFields(r *http.Request) *auth.Refusal {
	if r.ProtoMajor < 2 {
		return nil
	}
	refuse := func(message string) *auth.Refusal {
		return &auth.Refusal{Reason: auth.MalformedRequest, Message: message, Log: message}
	}
	if hosts, named := r.Header["Host"]; named && (len(hosts) != 1 || !strings.EqualFold(hosts[0], r.Host)) {
		return refuse("The Host is not the :authority")
	}
	for _, values := range r.Header {
		for _, value := range values {
			if strings.Trim(value, " \t") != value {
				return refuse("The value of a header begins or ends with a blank")
			}
		}
	}
	return nil
}
