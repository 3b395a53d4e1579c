#!/usr/bin/env bash
# pack.sh DIR packs each client whose language is installed into DIR, with the file
# SHA256SUMS. It packs as the tests do, by test/install.sh of the client.
set -euo pipefail
out=$(realpath -m "$1")
cd "$(dirname "$0")"
mkdir -p "$out"
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

for client in go javascript python java php ruby csharp shell; do
	mkdir "$work/$client"
	if ! bash "$client/test/install.sh" "$work/$client" >"$work/log" 2>&1; then
		echo "$client is not packed: $(tail -n 1 "$work/log")" >&2
		continue
	fi
	find "$work/$client" -maxdepth 2 -type f \( -name '*.whl' -o -name '*.tgz' -o -name '*.gem' -o -name '*.nupkg' -o -name 'card-*.zip' \
		-o -name card-gateway-client.jar -o -name card-request.tar.gz \) -exec cp -t "$out" {} +
	if [ "$client" = go ]; then # the file that a module proxy serves
		find "$work/go/proxy" -name '*.zip' -exec cp {} "$out/card-gateway-client-go.zip" \;
	fi
done
cd "$out"
rm -f SHA256SUMS
sums=$(sha256sum -- *)
echo "$sums" | tee SHA256SUMS
