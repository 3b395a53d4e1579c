#!/usr/bin/env bash
# Checks every shell script of the repository: shellcheck, and pipes.
#
# Under pipefail a pipe may lead only into a program that reads to the end.
# One that stops early, such as `grep -q` or `head`, kills the writer with
# SIGPIPE when the writer is not done yet. Then the pipeline fails by chance.
# Write to a file instead, or read from <<<"$(…)".
set -euo pipefail
cd "$(dirname "$0")/.."

readers="base64 cat cut gzip od openssl sort tail tee tr uniq wc"

early_readers() { awk -v readers="$readers" -f tests/early-readers.awk "$@"; }

# The check must see what it is for, and nothing else.
# shellcheck disable=SC2016 # samples
early=(
	'if ! "$output" card-keys --help | grep -q "card-gateway card-keys"; then'
	'one | sort -rn | head'
	'x=$(one |head -1)'
	'one |& LC_ALL=C grep -m1 x'
	$'one |\n\tgrep -q x'
	$'one \\\n\t| grep -q x'
	'one | while read -r x; do break; done'
	'a || b | command head -1'
)
# shellcheck disable=SC2016 # samples
whole=(
	'head -c 32 /dev/urandom | base64 >"$key"'
	'grep -q x "$file" || grep -q y "$file"'
	'-h|--help) usage ;;'
	"echo 'a | head'"
	'# one | head'
	'echo x >| "$file"'
	'grep -q x <<<"$(one | sort | uniq -c)"'
)
for sample in "${early[@]}"; do
	if early_readers - <<<"$sample" >/dev/null; then
		printf 'lint-shell.sh: finds no early reader in: %s\n' "$sample" >&2
		exit 1
	fi
done
for sample in "${whole[@]}"; do
	if ! early_readers - <<<"$sample" >&2; then
		printf 'lint-shell.sh: finds an early reader in: %s\n' "$sample" >&2
		exit 1
	fi
done

scripts=() guarded=()
while IFS= read -r -d '' file; do
	[ -f "$file" ] || continue
	first=
	IFS= read -r -d '' -n 64 first <"$file" || true
	if [[ ${first%%$'\n'*} != '#!'*sh ]]; then continue; fi
	scripts+=("$file")
	if grep -q pipefail "$file"; then guarded+=("$file"); fi
done < <(git ls-files -z -co --exclude-standard)

shellcheck "${scripts[@]}"
if ! early_readers "${guarded[@]}" >&2; then
	echo "lint-shell.sh: under pipefail a pipe may lead only into: $readers" >&2
	exit 1
fi
