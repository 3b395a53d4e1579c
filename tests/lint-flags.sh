#!/usr/bin/env bash
# Checks that Makefile, xcaddy.sh, the linter and the container build with the
# same Go and the same flags. Otherwise Go compiles everything twice, and the
# linter looks at other files than the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

# want fails unless the file has the text.
want() {
	if ! grep -qF -- "$2" "$1"; then
		printf 'lint-flags.sh: %s does not have what the Makefile has: %s\n' "$1" "$2" >&2
		exit 1
	fi
}

go=$(sed -n 's/^export GOTOOLCHAIN := //p' Makefile)
# shellcheck disable=SC2016 # of make, not of the shell
flags=$(sed -n 's/^export GOFLAGS := $(GOFLAGS) //p' Makefile)
tags=${flags##*-tags=}
: "${go:?} ${flags:?} ${tags:?}"

want xcaddy.sh "export GOTOOLCHAIN=$go"
want xcaddy.sh "$flags\""
want xcaddy.sh "export CGO_ENABLED=$(sed -n 's/^export CGO_ENABLED := //p' Makefile)"
want .golangci.yml "build-tags: [${tags//,/, }]"
want ops/Containerfile "FROM golang:${go#go}-"
