#!/usr/bin/env bash
# Installs what the tests start besides Go: redis-server and promtool, from the
# distribution's packages. Without root it says what is to be installed.
set -euo pipefail

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v promtool >/dev/null || missing+=(prometheus)
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	cat >&2 <<-END
		The tests need programs that are not installed. On Debian or Ubuntu:

		  sudo apt-get install --no-install-recommends ${missing[*]}

		Elsewhere install Redis 7 or newer (redis-server) and Prometheus (promtool).
	END
	exit 1
fi

# The tests start their own servers, so the packages must not start theirs.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 0755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
