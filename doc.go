// Package cardgateway registers the Caddy modules of Card Gateway: the app
// card_gateway and the handlers card_auth, card_rate_limit, card_translate and
// card_health. It holds no code of its own; xcaddy imports a module's root
// package, and this is it.
package cardgateway

import _ "github.com/card-gateway/card-gateway/caddymodule"
