#!/usr/bin/env bash
# Builds bin/card-gateway-production: Caddy with the Card Gateway and nothing
# else, in particular without the sandbox issuer. Versions are pinned. Two builds
# must be the same. The binary must show our modules, tell its version, start, and accept
# Caddyfile.example.
#
#   ./xcaddy.sh [OUTPUT]
set -euo pipefail
cd "$(dirname "$0")"

# The same as in the Makefile, so that nothing is compiled twice.
export GOTOOLCHAIN=go1.27.3
export CGO_ENABLED=0
export GOFLAGS="${GOFLAGS-} -trimpath -tags=nobadger,nomysql,nopgx"
caddy=v2.11.9
xcaddy=v0.4.5
module=github.com/card-gateway/card-gateway
output=${1:-bin/card-gateway-production}

work=$(mktemp -d)
gateway=
trap 'if [ -n "$gateway" ]; then kill "$gateway"; fi; rm -rf "$work"' EXIT
mkdir -p "$(dirname "$output")"

# The name that the help of the commands shows, and the version.
stamps=$(./version.sh)
name="-X github.com/caddyserver/caddy/v2.CustomBinaryName=card-gateway"
export XCADDY_GO_BUILD_FLAGS="-ldflags '-w -s $name $stamps'"

# build_into builds the binary. Without the version here xcaddy would ask the
# module proxy for the newest.
build_into() {
	go run "github.com/caddyserver/xcaddy/cmd/xcaddy@$xcaddy" build "$caddy" --output "$1" --with "$module@v0.0.0=."
}
build_into "$output"

# The same sources make the same bytes: what is shipped can be built again and
# compared.
build_into "$work/again"
if ! cmp -s "$output" "$work/again"; then
	echo "xcaddy.sh: two builds of the same sources differ" >&2
	exit 1
fi
rm "$work/again"

"$output" list-modules >"$work/modules"
for name in card_gateway \
	card_gateway.stores.file card_gateway.stores.redis \
	http.handlers.card_auth http.handlers.card_rate_limit \
	http.handlers.card_translate http.handlers.card_forward http.handlers.card_health \
	http.handlers.card_console admin.api.card_gateway_console \
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
if grep sandbox "$work/modules" >&2 || grep -q X-Sandbox "$output"; then
	echo "xcaddy.sh: the sandbox issuer is in $output; it must not be" >&2
	exit 1
fi

# What is stamped is what it prints and what it logs.
version=v$(<VERSION)
commit=${stamps##*.commit=}
if [ "$commit" = "$stamps" ]; then commit=unknown; fi
"$output" version >"$work/version"
if ! grep -qF "card-gateway $version ($commit), Caddy $caddy " "$work/version"; then
	echo "xcaddy.sh: $output is $version ($commit) on Caddy $caddy and prints: $(<"$work/version")" >&2
	exit 1
fi

(umask 077 && head -c 32 /dev/urandom | base64 >"$work/master.key")
export XDG_DATA_HOME=$work XDG_CONFIG_HOME=$work
cat >"$work/Caddyfile" <<-END
	{
		admin off
		card_gateway {
			store file $work/started
			master_key file $work/master.key
		}
	}
END
"$output" run --config "$work/Caddyfile" --adapter caddyfile >"$work/log" 2>&1 &
gateway=$!
until grep -q 'serving initial configuration' "$work/log"; do
	if ! kill -0 "$gateway" 2>/dev/null; then
		cat "$work/log" >&2
		echo "xcaddy.sh: $output does not start" >&2
		exit 1
	fi
	sleep 0.1
done
if ! grep -qF "\"version\":\"$version\",\"commit\":\"$commit\",\"caddy\":\"$caddy\"" "$work/log"; then
	cat "$work/log" >&2
	echo "xcaddy.sh: $output does not log that it is $version ($commit) on Caddy $caddy" >&2
	exit 1
fi
kill "$gateway"
wait "$gateway"
gateway=

if ! CARD_GATEWAY_MASTER_KEY_FILE=$work/master.key CARD_GATEWAY_DATA=$work/data CARD_GATEWAY_AUDIT=$work/audit.log \
	"$output" validate --config Caddyfile.example --adapter caddyfile >"$work/validate" 2>&1; then
	cat "$work/validate" >&2
	echo "xcaddy.sh: $output does not accept Caddyfile.example" >&2
	exit 1
fi
hash=$(sha256sum "$output")
echo "built $output, $version ($commit) on Caddy $caddy, twice with SHA-256 ${hash%% *}; it starts, and Caddyfile.example is valid"
