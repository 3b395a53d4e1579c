package keyadmin

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

// AddAdminFlags adds the flags that say where a command finds the admin
// endpoint.
func AddAdminFlags(cmd *cobra.Command) { addAdminFlags(cmd) }

// AskRefusal asks the gateway, over its admin endpoint, what it remembers of
// the refusal with the request id.
func AskRefusal(cmd *cobra.Command, requestID string) (*Refusal, error) {
	refusal := new(Refusal)
	_, err := callAdmin(cmd, adminRequest{method: http.MethodGet, path: "/card-gateway/refusals/" + url.PathEscape(requestID)}, refusal)
	return refusal, err
}
