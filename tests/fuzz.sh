#!/usr/bin/env bash
# Runs the fuzz targets of the repository, each for a time, and ends with 1 if one has
# found something. One more runs at once than there are CPUs, because some wait for
# gateway, HAProxy or Redis. What it found is in the folder testdata/fuzz of the
# package, as a test that runs from then on: mend the fault and commit both. A line for
# each target has the number of inputs that were tried.
#
#   tests/fuzz.sh TIME [REGEXP]   for example: tests/fuzz.sh 10m FuzzParse
#   tests/fuzz.sh short           10 seconds each, for CI
#
# The first time, Caddy is compiled for fuzzing, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:?how long for each target}
chosen=${2:-.}
export bound=48h # for one target
if [ "$time" = short ]; then time=10s bound=12m; fi

# targets prints the directory and the name of each target.
targets() {
	awk -F '[ (]' -v chosen="$chosen" '
		/_test\.go$/ { directory = $0; sub(/\/[^\/]*$/, "", directory) }
		/^func Fuzz/ && $2 ~ chosen { print directory, $2 }
	' <<<"$(git grep --heading -E '^func Fuzz' -- '*_test.go')"
}

# compile compiles the targets of a directory, once for all of them.
compile() {
	go -C "$1" test -c -fuzz . -o "$built/${1//\//-}" .
}

# fuzz runs a target. Go stops the worker of a target that starts a gateway whenever
# it has shortened an input for a time, so the time is a number of runs here.
fuzz() {
	local said
	if said=$(cd "$2" && timeout "$bound" "$built/${2//\//-}" -test.run '^$' -test.fuzz "^$3\$" -test.fuzztime "$1" \
		-test.fuzzminimizetime 20x -test.parallel 1 -test.fuzzcachedir "$cache/$2" 2>&1); then
		printf '%s.%s: %s\n' "$2" "$3" "$(grep -oE '(gathering|execs).*' <<<"$said" | tail -n 1)"
	else
		printf '== %s.%s has found something ==\n%s\n' "$2" "$3" "$said"
		return 1
	fi
}
export -f compile fuzz

all=$(targets)
if [ -z "$all" ]; then
	echo "fuzz.sh: no target is named like $chosen" >&2
	exit 1
fi
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
cache=$(go env GOCACHE)/fuzz/$(go list -m) # where go test -fuzz keeps its inputs, too
export built cache
xargs -P "$(nproc)" -L 1 bash -c 'compile "$@"' compile <<<"$(cut -d ' ' -f 1 <<<"$all" | sort -u)"
if ! xargs -P "$(($(nproc) + 1))" -L 1 bash -c 'fuzz "$@"' fuzz "$time" <<<"$all"; then
	echo "fuzz.sh: a target has found something" >&2
	exit 1
fi
echo "fuzz.sh: $(wc -l <<<"$all") targets found nothing in $time each"
