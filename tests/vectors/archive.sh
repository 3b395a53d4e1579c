#!/usr/bin/env bash
# Makes dist/card-gateway-vectors-VERSION.tar.gz: the signature suite with the
# cases of RFC 4231 and of Project Wycheproof. The same sources make the same bytes.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(<VERSION)
name=card-gateway-vectors-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The version is that of tests/signers/signers_test.go.
module=$(sed -n 's/^\twycheproof    = "\(.*\)"$/\1/p' tests/signers/signers_test.go)
directory=$(cd "$work" && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')

mkdir -p "$work/$name/wycheproof" dist
cp tests/vectors/*.json tests/vectors/README.md tests/vectors/generate.py "$work/$name/"
cp -r tests/vectors/customers "$work/$name/"
cp docs/vectors.md "$work/$name/HOWTO.md"
cp LICENSE "$work/$name/"
cp "$directory/testvectors/hmac_sha256_test.json" "$directory/LICENSE" "$work/$name/wycheproof/"
find "$work/$name" -type d -exec chmod 0755 {} +
find "$work/$name" -type f -exec chmod 0644 {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
echo "dist/$name.tar.gz, SHA-256 $(sha256sum "dist/$name.tar.gz" | cut -d ' ' -f 1)"
