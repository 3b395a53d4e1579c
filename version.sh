#!/usr/bin/env bash
# Prints the linker flags that stamp the file VERSION and the commit into a
# binary. The commit is $COMMIT, else what git says. Outside of a repository
# none is stamped.
set -euo pipefail
cd "$(dirname "$0")"

package=github.com/card-gateway/card-gateway/caddymodule/version
flags="-X $package.version=v$(<VERSION)"
commit=${COMMIT:-}
if [ -z "$commit" ]; then
	# The commit alone, whatever tags there are.
	commit=$(git describe --always --exclude='*' --abbrev=12 --dirty=+dirty 2>/dev/null) || commit=
fi
if [ -n "$commit" ]; then flags+=" -X $package.commit=$commit"; fi
echo "$flags"
