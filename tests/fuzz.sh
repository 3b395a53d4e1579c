#!/usr/bin/env bash
# Runs the fuzz targets of the module, one after the other, each for a time, and
# ends with 1 if one has found something. What it found is in the folder
# testdata/fuzz of the package, as a test that runs from then on: mend the fault
# and commit both.
#
#   tests/fuzz.sh TIME [REGEXP]   for example: tests/fuzz.sh 10m FuzzParse
#   tests/fuzz.sh short           2 seconds each, for CI; without the packages
#                                 that Caddy is compiled into, because compiling
#                                 it for fuzzing takes minutes
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:?how long for each target}
chosen=${2:-.}
heavy='^$'
if [ "$time" = short ]; then
	time=2s
	heavy='^(caddymodule|caddymodule/explaincmd|caddymodule/signcmd|caddymodule/cardlog)$'
fi

failed=()
count=0
while read -r directory; do
	while read -r target; do
		if ! [[ $target =~ $chosen ]]; then continue; fi
		count=$((count + 1))
		printf '== %s %s ==\n' "$directory" "$target"
		if ! go test "./$directory" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -parallel 2; then
			failed+=("$directory.$target")
		fi
	done < <(grep -ho '^func Fuzz[A-Za-z0-9]*' "$directory"/*_test.go | sed 's/^func //')
done < <(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u | grep -vE "$heavy")

if [ "$count" -eq 0 ]; then
	echo "fuzz.sh: no target is named like $chosen" >&2
	exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
	echo "fuzz.sh: of $count targets these have found something: ${failed[*]}" >&2
	exit 1
fi
echo "fuzz.sh: $count targets found nothing in $time each"
