#!/usr/bin/env bash
# Runs the gateway with demo/Caddyfile until Ctrl-C, and exits 0 then. On the
# first start it makes a master key and a demo key, and prints what to paste.
#
# Everything it makes is below demo/data, which is not in git; remove that
# directory to begin anew. demo/data/env has the key, and the token for operators,
# to be sourced; demo/data/gateway.log is what the gateway logs. Addresses that are
# taken already can be changed:
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
log=$data/gateway.log
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
}
pass_header X-Sandbox-Force"
export CARD_GATEWAY_METRICS_PORT=${CARD_GATEWAY_METRICS_PORT:-9180}
export CARD_SANDBOX_PORT=$sandbox_port
export CARD_ISSUER=127.0.0.1:$sandbox_port
# The page at / and what it shows.
export CARD_GATEWAY_MORE="import \"$PWD/demo/page.caddyfile\""
export CARD_DEMO_ENV=${data#"$PWD/"}/env
export CARD_DEMO_DATA=$data
# The page explains requests of another key without a secret.
unset CARD_SECRET
# As in production: ops/card-gateway.service.
export GOGC=${GOGC:-400}
# What Caddy itself saves.
export XDG_DATA_HOME=$data XDG_CONFIG_HOME=$data

card_keys() {
	"$gateway" card-keys "$1" --address "$admin" "${@:2}"
}

# make_example writes the example with the admin endpoint of the demo, a token for
# it, and what is off by default and can be tried here.
make_example() {
	if [ ! -s "$CARD_GATEWAY_TOKEN_FILE" ]; then
		(umask 077 && printf 'demo keys %s\n' "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')" >"$CARD_GATEWAY_TOKEN_FILE")
	fi
	local line example
	example=$(<Caddyfile.example)
	while IFS= read -r line; do
		case $line in
		$'\tadmin unix//run/'*) printf '\tadmin %s\n' "$admin" ;;
		$'\tcard_gateway {')
			printf '%s\n\t\tadmin_token file %s\n\t\tsign_responses\n' "$line" "$CARD_GATEWAY_TOKEN_FILE"
			printf '\t\tdocs_url http://127.0.0.1:%s/docs/errors.md\n' "$CARD_GATEWAY_PORT"
			;;
		$'\t\tcard_self') printf '%s {\n\t\t\trotate yes\n\t\t}\n' "$line" ;;
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

# await_gateway waits until the gateway is ready, and its admin API makes keys.
await_gateway() {
	local waited
	for ((waited = 0; waited < 600; waited++)); do
		if (is_ready) && card_keys list >/dev/null 2>&1; then return; fi
		sleep 0.1
	done
	printf '\nThe gateway is not ready; %s says why.\n' "$log" >&2
	return 1
}

# write_env stores what clients and operators need, for this user alone.
write_env() {
	(umask 077 && cat >"$data/env.new" <<-END
		export CARD_URL=http://127.0.0.1:$CARD_GATEWAY_PORT
		export CARD_KEY_ID=$1
		export CARD_SECRET=$2
		export CADDY_ADMIN=$admin
		export CARD_GATEWAY_TOKEN_FILE=$CARD_GATEWAY_TOKEN_FILE
		export CARD_ADMIN_TOKEN=$(awk '{ print $3 }' "$CARD_GATEWAY_TOKEN_FILE")
	END
	)
	mv "$data/env.new" "$data/env"
	(umask 077 && printf '%s' "$2" >"$data/demo-secret")
}

# make_key makes the demo key, or a new secret for the key of an earlier start
# whose secret is not stored.
make_key() {
	local made
	if [ -s "$data/demo-key" ]; then
		made=$(card_keys rotate --overlap 0 "$(<"$data/demo-key")" 2>&1)
	else
		made=$(card_keys create --tenant demo --scopes '*' --mode test --variant B \
			--description "demo key of make run" 2>&1)
	fi || {
		printf '\nThe demo key could not be made: %s\n' "$made" >&2
		return 1
	}
	awk '$1 == "id" { print $2 }' <<<"$made" >"$data/demo-key"
	write_env "$(<"$data/demo-key")" "$(awk '$1 == "secret" && NF == 2 { print $2 }' <<<"$made")"
}

# is_known succeeds if there is a stored secret and the gateway knows it: somebody may
# have rotated the key since.
is_known() {
	[ -s "$data/env" ] || return
	local answer
	# shellcheck disable=SC1091 # it is made at run time
	answer=$(. "$data/env" && "$gateway" card-sign GET "http://127.0.0.1:$CARD_GATEWAY_PORT/gateway/v1/key" 2>&1) || true
	[[ $answer != *"Signature mismatch"* ]]
}

# announce prints what one needs, last on the screen, and then when the key is about to
# be locked.
announce() {
	await_gateway || return
	if is_known; then
		# The port may be another one than last time.
		# shellcheck disable=SC1091 # it is made at run time
		(. "$data/env" && write_env "$CARD_KEY_ID" "$CARD_SECRET")
	else
		make_key || return
	fi
	cat <<-END

		The gateway serves http://127.0.0.1:$CARD_GATEWAY_PORT; open it in a browser for the operations, and to see what is wrong
		with a request. Ctrl-C stops it. The log is $(shown "$log"), the key is in $(shown "$data/env"), and
		so is the token for operators. From another terminal in this directory:

		  . $(shown "$data/env")
		  $gateway card-sign POST \$CARD_URL/gateway/v1/key/rotate     # a new secret; the old one is good for a day
		  $gateway card-sign GET \$CARD_URL/api/v1/products

	END
	warn_of_lock "$(<"$data/demo-key")"
}

# warn_of_lock prints when half of the failures that lock the key have happened in a row,
# as the log of refusals has them.
warn_of_lock() {
	local line failures warned=
	while IFS= read -r line; do
		[[ $line == *"\"key_id\":\"$1\""* && $line =~ \"failures\":([0-9]+) ]] || continue
		failures=${BASH_REMATCH[1]}
		if ((failures < 25)); then
			warned=
		elif [ -z "$warned" ]; then
			warned=yes
			cat <<-END
				The demo key has failed $failures times in a row; 50 lock it. The answers say what was wrong. This unlocks it:

				  . $(shown "$data/env") && $gateway card-keys unlock \$CARD_KEY_ID

			END
		fi
	done < <(tail -n +1 -f "$log")
}

# shown returns a path as one would type it here.
shown() { printf '%s' "${1#"$PWD/"}"; }

refuse_taken CARD_GATEWAY_PORT "127.0.0.1:$CARD_GATEWAY_PORT"
refuse_taken CARD_SANDBOX_PORT "127.0.0.1:$CARD_SANDBOX_PORT"
refuse_taken CARD_GATEWAY_METRICS_PORT "127.0.0.1:$CARD_GATEWAY_METRICS_PORT"
if [[ $admin =~ :[0-9]+$ ]]; then refuse_taken CARD_GATEWAY_ADMIN "$admin"; fi
make_keys
make_example
(umask 077 && : >"$log")

# With job control each command has a process group of its own. So Ctrl-C on
# a terminal reaches the gateway alone, and make does not take it for itself.
set -m
announce &
announcer=$!
trap 'kill -- "-$announcer" 2>/dev/null || true' EXIT

serve() { "$gateway" run --config demo/Caddyfile --adapter caddyfile >>"$log" 2>&1; }

# ended exits as the gateway did, and shows why it did not serve.
ended() {
	local status=$?
	if [ "$status" -ne 0 ]; then
		printf '\nThe gateway ended with %s. The last lines of %s:\n' "$status" "$(shown "$log")" >&2
		tail -n 5 "$log" >&2
	fi
	exit "$status"
}

if [ -t 0 ]; then
	serve || ended
else
	"$gateway" run --config demo/Caddyfile --adapter caddyfile >>"$log" 2>&1 &
	running=$!
	trap 'kill -TERM "$running" 2>/dev/null || true' INT TERM
	# A signal ends a wait early; the gateway then takes its time to stop.
	wait "$running" || true
	while kill -0 "$running" 2>/dev/null; do wait "$running" || true; done
	wait "$running" || ended
fi
