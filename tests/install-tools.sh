#!/usr/bin/env bash
# Installs what tests and lint start besides Go, from the packages of the
# distribution: the programs named, else all of them. Without root it says
# what is to be installed.
#
#   tests/install-tools.sh [PROGRAM…]
set -euo pipefail

if [ $# -eq 0 ]; then set -- redis-server promtool amtool python3 shellcheck nginx haproxy ip openssl wrk node npm javac python3-jwt rpm chromium valgrind; fi

# is_there reports whether a program is installed; nginx-lua is a module.
is_there() {
	case $1 in
	nginx|haproxy|ip) command -v "$1" >/dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
	nginx-lua) [ -e /usr/lib/nginx/modules/ngx_http_lua_module.so ] && [ -e /usr/share/lua/5.1/resty/lrucache.lua ] ;;
	chromium) command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ;;
	python3-jwt) python3 -c 'import jwt, cryptography' 2>/dev/null || /usr/bin/python3 -c 'import jwt, cryptography' 2>/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

missing=()
for program; do
	if ! is_there "$program"; then
		case $program in
		promtool) missing+=(prometheus) ;;
		amtool) missing+=(prometheus-alertmanager) ;;
		ip) missing+=(iproute2) ;;
		node) missing+=(nodejs) ;;
		javac) missing+=(default-jdk-headless) ;;
		python3-jwt) missing+=(python3-jwt python3-cryptography) ;;
		nginx-lua) missing+=(libnginx-mod-http-lua lua-resty-core lua-resty-lrucache) ;;
		*) missing+=("$program") ;;
		esac
	fi
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	cat >&2 <<-END
		Programs that are started here are not installed. On Debian or Ubuntu:

		  sudo apt-get install --no-install-recommends ${missing[*]}

		Elsewhere install Redis 7 or newer (redis-server), Prometheus (promtool),
		Alertmanager (amtool), Python 3 (python3), ShellCheck (shellcheck), nginx
		with its Lua module, haproxy, iproute2, openssl, wrk, Node.js with npm, a JDK, PyJWT,
		rpm, Chromium and Valgrind, whichever are missing.
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
