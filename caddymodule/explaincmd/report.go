package explaincmd

import (
	"github.com/spf13/cobra"

	"github.com/card-gateway/card-gateway/auth"
	"github.com/card-gateway/card-gateway/caddymodule/keyadmin"
)

// A report is what is found out about a request.
type report struct {
	cmd     *cobra.Command
	capture *capture // nil: only what the gateway remembers is known
	secret  string   // "": not known
	signed  *string  // what the client has signed, if it is known
	refusal *keyadmin.Refusal
	json    bool

	found []auth.FieldError
	right string // the string to sign of the captured request
	wrong string // what was signed in its place; "": not known
	notes []string
}

func (r *report) add(finding, message string) {
	r.found = append(r.found, auth.FieldError{Finding: finding, Message: message})
}
