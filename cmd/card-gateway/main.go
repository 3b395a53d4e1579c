// Command card-gateway is Caddy with its standard modules, the Card Gateway,
// the sandbox issuer and its debugger. It is the binary of `make run` and of the tests. For
// production, xcaddy.sh builds a binary without the sandbox.
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/card-gateway/card-gateway/caddymodule"
	_ "github.com/card-gateway/card-gateway/commands"
	_ "github.com/card-gateway/card-gateway/sandbox"
	_ "github.com/card-gateway/card-gateway/sandbox/debugger"
)

func main() {
	caddy.CustomBinaryName = "card-gateway" // for the help of its commands
	caddycmd.Main()
}
