// Package commands registers the commands of the gateway. Each is a client of a
// gateway or a tool of its own, which runs in another process than a gateway, so none
// of them is below caddymodule. It has no code of its own: begin with the package of
// a command.
package commands

import (
	_ "github.com/card-gateway/card-gateway/commands/carddoctor"  // card-doctor
	_ "github.com/card-gateway/card-gateway/commands/cardexplain" // card-explain
	_ "github.com/card-gateway/card-gateway/commands/cardkeys"    // card-keys
	_ "github.com/card-gateway/card-gateway/commands/cardsign"    // card-sign
	_ "github.com/card-gateway/card-gateway/commands/cardstatus"  // card-status and card-node
	_ "github.com/card-gateway/card-gateway/commands/cardunit"    // card-unit
)
