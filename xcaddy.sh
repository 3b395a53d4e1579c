#!/usr/bin/env bash
# Builds bin/card-gateway-production: Caddy with the Card Gateway and nothing
# else, in particular without the sandbox issuer. Versions are pinned. The
# binary must show our modules and accept Caddyfile.example.
#
#   ./xcaddy.sh [OUTPUT]
set -euo pipefail
cd "$(dirname "$0")"

export GOTOOLCHAIN=go1.27.3
caddy=v2.11.9
xcaddy=v0.4.5
module=github.com/card-gateway/card-gateway
output=${1:-bin/card-gateway-production}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$(dirname "$output")"

# xcaddy's own flags, and the name that the help of the commands shows.
export XCADDY_GO_BUILD_FLAGS="-trimpath -tags nobadger,nomysql,nopgx \
	-ldflags '-w -s -X github.com/caddyserver/caddy/v2.CustomBinaryName=card-gateway'"

# Without the version here xcaddy would ask the module proxy for the newest.
go run "github.com/caddyserver/xcaddy/cmd/xcaddy@$xcaddy" build "$caddy" \
	--output "$output" --with "$module@v0.0.0=."

"$output" list-modules >"$work/modules"
for name in card_gateway \
	card_gateway.stores.file card_gateway.stores.redis \
	http.handlers.card_auth http.handlers.card_rate_limit \
	http.handlers.card_translate http.handlers.card_health \
	admin.api.card_gateway caddy.logging.encoders.card; do
	if ! grep -qx "$name" "$work/modules"; then
		echo "xcaddy.sh: $output lacks the module $name" >&2
		exit 1
	fi
done
"$output" card-keys --help >"$work/help"
if ! grep -q 'card-gateway card-keys' "$work/help"; then
	echo "xcaddy.sh: $output calls itself something else than card-gateway" >&2
	exit 1
fi
if grep sandbox "$work/modules" >&2; then
	echo "xcaddy.sh: the sandbox issuer is in $output; it must not be" >&2
	exit 1
fi

(umask 077 && head -c 32 /dev/urandom | base64 >"$work/master.key")
if ! CARD_GATEWAY_MASTER_KEY_FILE=$work/master.key CARD_GATEWAY_DATA=$work/data \
	XDG_DATA_HOME=$work XDG_CONFIG_HOME=$work \
	"$output" validate --config Caddyfile.example --adapter caddyfile >"$work/validate" 2>&1; then
	cat "$work/validate" >&2
	echo "xcaddy.sh: $output does not accept Caddyfile.example" >&2
	exit 1
fi
echo "built $output ($caddy); Caddyfile.example is valid"
