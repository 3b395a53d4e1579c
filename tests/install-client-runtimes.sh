#!/usr/bin/env bash
# Installs the languages of clients/, and the HTTP libraries that their tests
# send through, from the packages of the distribution. CI calls it before
# `make test-clients`, which runs whatever is installed.
set -euo pipefail

# has reports whether a package is installed.
has() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

missing=()
# These may come from somewhere else.
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v javac >/dev/null || missing+=(default-jdk-headless)
for package in \
	curl jq openssl \
	libokhttp-java \
	python3-venv python3-pip python3-setuptools python3-wheel python3-requests python3-httpx python3-aiohttp \
	php-cli php-curl php-zip composer unzip php-guzzlehttp-guzzle php-psr-http-client \
	ruby ruby-faraday ruby-faraday-net-http \
	mono-mcs mono-runtime libmono-system-net-http4.0-cil; do
	has "$package" || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "To test all clients install, on Debian or Ubuntu: ${missing[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
