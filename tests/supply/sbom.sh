#!/usr/bin/env bash
# Writes the bill of materials of a binary, as CycloneDX in JSON, from what the
# binary itself says of its modules and their hashes.
#
#   tests/supply/sbom.sh [BINARY [OUTPUT]]
set -euo pipefail
cd "$(dirname "$0")/../.."

binary=${1:-bin/card-gateway-production}
output=${2:-dist/card-gateway-$(<VERSION).cdx.json}
mkdir -p "$(dirname "$output")"
GOFLAGS=-mod=mod go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0 \
	bin -json -std -licenses -noserial -version "v$(<VERSION)" -output "$output" "$binary"

# It must name each module of the binary.
missing=0
while read -r path version; do
	if ! grep -qF "\"pkg:golang/$path@$version" "$output"; then
		echo "sbom.sh: $output lacks $path $version" >&2
		missing=1
	fi
done < <(go version -m "$binary" | awk '$1 == "dep" && $4 != "" { print $2, $3 }')
if [ "$missing" -ne 0 ]; then exit 1; fi
echo "$output"
