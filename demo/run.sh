#!/usr/bin/env bash
# Runs the gateway with demo/Caddyfile until Ctrl-C, and exits 0 then. On the
# first start it makes a master key and a demo key, and prints what to paste.
#
# Everything it makes is below demo/data, which is not in git; remove that
# directory to begin anew. Addresses that are taken already can be changed:
#
#   CARD_GATEWAY_PORT=8081 CARD_GATEWAY_ADMIN=localhost:2020 \
#   CARD_SANDBOX_PORT=9001 CARD_GATEWAY_METRICS_PORT=9181 make run
set -euo pipefail
cd "$(dirname "$0")/.."

gateway=${CARD_GATEWAY_BINARY:-bin/card-gateway}
data=${CARD_GATEWAY_DEMO_DIR:-demo/data}
mkdir -p "$data"
chmod 0700 "$data"
data=$(cd "$data" && pwd)
sandbox_port=${CARD_SANDBOX_PORT:-9000}

export CARD_GATEWAY_PORT=${CARD_GATEWAY_PORT:-8080}
export CARD_GATEWAY_BIND=127.0.0.1
admin=${CARD_GATEWAY_ADMIN:-localhost:2019}
export CARD_GATEWAY_DEMO_EXAMPLE=$data/Caddyfile.example
# On TCP the key API wants a token.
export CARD_GATEWAY_TOKEN_FILE=$data/admin.tokens
export CARD_GATEWAY_DATA=$data/store
export CARD_GATEWAY_AUDIT=$data/audit.log
export CARD_GATEWAY_MASTER_KEY_FILE=$data/master.key
export CARD_GATEWAY_ASSERT="assert {
	key file $data/assert.key
	audience sandbox
}"
export CARD_GATEWAY_METRICS_PORT=${CARD_GATEWAY_METRICS_PORT:-9180}
export CARD_SANDBOX_PORT=$sandbox_port
export CARD_ISSUER=127.0.0.1:$sandbox_port
# As in production: ops/card-gateway.service.
export GOGC=${GOGC:-400}
# What Caddy itself saves.
export XDG_DATA_HOME=$data XDG_CONFIG_HOME=$data

card_keys() {
	"$gateway" card-keys "$1" --address "$admin" "${@:2}"
}

# make_example writes the example with the admin endpoint of the demo, and a
# token for it.
make_example() {
	if [ ! -s "$CARD_GATEWAY_TOKEN_FILE" ]; then
		(umask 077 && printf 'demo keys %s\n' "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" >"$CARD_GATEWAY_TOKEN_FILE")
	fi
	local line example
	example=$(<Caddyfile.example)
	while IFS= read -r line; do
		case $line in
		$'\tadmin unix//run/'*) printf '\tadmin %s\n' "$admin" ;;
		$'\tcard_gateway {') printf '%s\n\t\tadmin_token file %s\n' "$line" "$CARD_GATEWAY_TOKEN_FILE" ;;
		*) printf '%s\n' "$line" ;;
		esac
	done <<<"$example" >"$CARD_GATEWAY_DEMO_EXAMPLE"
}

make_keys() {
	local file
	for file in "$CARD_GATEWAY_MASTER_KEY_FILE" "$data/assert.key"; do
		if [ ! -s "$file" ]; then (umask 077 && head -c 32 /dev/urandom | base64 >"$file"); fi
	done
}

# refuse_taken exits if another program listens on the port. Caddy would share a port
# with another Caddy, and each would get some of the requests.
refuse_taken() {
	if (exec 3<>"/dev/tcp/127.0.0.1/${2##*:}") 2>/dev/null; then
		printf '%s is taken by another program: stop it, or choose another with %s=… make run\n' "$2" "$1" >&2
		exit 1
	fi
}

# is_ready asks /readyz, with nothing but bash.
is_ready() {
	local status
	{
		exec 3<>"/dev/tcp/127.0.0.1/$CARD_GATEWAY_PORT" &&
			printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3 &&
			IFS= read -r -t 5 status <&3 &&
			exec 3>&-
	} 2>/dev/null || return 1
	[[ $status == *" 200 "* ]]
}

announce() {
	local waited id secret made
	for ((waited = 0; waited < 600; waited++)); do
		# The gateway is ready a moment before its admin API makes keys.
		if (is_ready) && card_keys list >/dev/null 2>&1; then break; fi
		sleep 0.1
	done
	if [ -s "$data/demo-key" ]; then
		id=$(<"$data/demo-key")
		cat <<-END

			The gateway serves http://127.0.0.1:$CARD_GATEWAY_PORT with the demo key
			  $id
			Its secret was shown at the first start. For a new one, paste:

			  $(rotate_line "$id")

			and then, with what it prints:

			  CARD_KEY_ID=$id CARD_SECRET=… $gateway card-sign GET http://127.0.0.1:$CARD_GATEWAY_PORT/api/v1/products

		END
		return
	fi
	if ! made=$(card_keys create --tenant demo --scopes '*' --mode test --description "demo key of make run" 2>&1); then
		printf '\nThe demo key could not be made: %s\n' "$made" >&2
		return
	fi
	id=$(awk '$1 == "id" { print $2 }' <<<"$made")
	secret=$(awk '$1 == "secret" && NF == 2 { print $2 }' <<<"$made")
	printf '%s\n' "$id" >"$data/demo-key"
	cat <<-END

		The gateway serves http://127.0.0.1:$CARD_GATEWAY_PORT. A demo key was made; its secret is not shown again:

		  id      $id
		  secret  $secret

		A signed request to paste into another terminal, in this directory:

		  CARD_KEY_ID=$id CARD_SECRET=$secret $gateway card-sign GET http://127.0.0.1:$CARD_GATEWAY_PORT/api/v1/products

	END
}

rotate_line() {
	echo "$gateway card-keys rotate --address '$admin' --token-file '$CARD_GATEWAY_TOKEN_FILE' $1"
}

refuse_taken CARD_GATEWAY_PORT "127.0.0.1:$CARD_GATEWAY_PORT"
refuse_taken CARD_SANDBOX_PORT "127.0.0.1:$CARD_SANDBOX_PORT"
refuse_taken CARD_GATEWAY_METRICS_PORT "127.0.0.1:$CARD_GATEWAY_METRICS_PORT"
if [[ $admin =~ :[0-9]+$ ]]; then refuse_taken CARD_GATEWAY_ADMIN "$admin"; fi
make_keys
make_example

# With job control each command has a process group of its own. So Ctrl-C on
# a terminal reaches the gateway alone, and make does not take it for itself.
set -m
announce &
announcer=$!
trap 'kill "$announcer" 2>/dev/null || true' EXIT

if [ -t 0 ]; then
	"$gateway" run --config demo/Caddyfile --adapter caddyfile
else
	"$gateway" run --config demo/Caddyfile --adapter caddyfile &
	running=$!
	trap 'kill -TERM "$running" 2>/dev/null || true' INT TERM
	# A signal ends a wait early; the gateway then takes its time to stop.
	wait "$running" || true
	while kill -0 "$running" 2>/dev/null; do wait "$running" || true; done
	wait "$running"
fi
