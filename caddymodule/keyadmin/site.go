package keyadmin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
)

// SiteOptions are the options of the admin API on a site.
type SiteOptions struct {
	// Changes lets a token of the role keys change keys. Otherwise every token
	// may only read.
	Changes bool
}

// Site returns the part of the admin API that the console needs, as a handler for
// a site. Each call needs a token, also on a unix socket. Import, copy, update and
// deletion of keys, and the calls that change the gateway, exist only on the admin
// endpoint. Refusals are answered as there: {"error":"…"}.
func Site(gateway *Gateway, options SiteOptions) http.Handler {
	api := &AdminAPI{gateway: func() (*Gateway, error) { return gateway, nil }, door: door{site: true, readOnly: !options.Changes}}
	mux := http.NewServeMux()
	for i := range routes {
		if routes[i].place == everywhere {
			mux.Handle(routes[i].pattern, answering{api.handler(&routes[i])})
		}
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("the console does not have %s %s; the admin endpoint may", r.Method, r.URL.Path)})
	})
	return mux
}

// answering writes the error of a handler of the admin API.
type answering struct{ caddy.AdminHandler }

func (a answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := a.AdminHandler.ServeHTTP(w, r); err != nil {
		writeError(w, err)
	}
}

// writeError answers an error as Caddy's admin endpoint does.
func writeError(w http.ResponseWriter, err error) {
	answer := caddy.APIError{HTTPStatus: http.StatusInternalServerError, Err: err}
	_ = errors.As(err, &answer)
	if answer.Message == "" && answer.Err != nil {
		answer.Message = answer.Err.Error()
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if answer.HTTPStatus == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(answer.HTTPStatus)
	_ = json.NewEncoder(w).Encode(answer)
}
