package caddymodule

import "github.com/card-gateway/card-gateway/auth"

// detail is error.details of a refusal that has one finding to name.
func detail(finding, message string) []auth.FieldError {
	return []auth.FieldError{{Finding: finding, Message: message}}
}

// whereOperationsLie is error.details where a request has missed the gateway's
// paths.
var whereOperationsLie = detail("base_path", "The card API lies under /api/v1/; send the path with this base")
