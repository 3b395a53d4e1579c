#!/usr/bin/env bash
# set-version.sh VERSION gives all clients that version. `make test-clients`
# compares it with the file VERSION.
set -euo pipefail
cd "$(dirname "$0")"
version=$1

sed -i -E "s/^(const Version = ).*/\1\"$version\"/" go/doc.go
sed -i -E "s/^(  \"version\": ).*/\1\"$version\",/" javascript/package.json
sed -i -E "s/^(__version__ = ).*/\1\"$version\"/" python/src/card_gateway_client/version.py
sed -i -E "s/^(  <version>).*(<\/version>)/\1$version\2/" java/pom.xml java/README.md
sed -i -E "s/( VERSION = ).*;/\1\"$version\";/" java/src/main/java/io/github/cardgateway/CardClient.java
sed -i -E "s/^(    \"version\": ).*/\1\"$version\",/" php/composer.json
sed -i -E "s/(const VERSION = ).*;/\1'$version';/" php/src/Client.php
sed -i -E "s/^(  VERSION = ).*/\1\"$version\"/" ruby/lib/card_gateway/version.rb
sed -i -E "s/^(version=).*/\1$version/" shell/card-request
sed -i -E "s/^(    <Version>).*(<\/Version>)/\1$version\2/" csharp/CardGateway.Client.csproj
sed -i -E "s/(const string Version = ).*;/\1\"$version\";/" csharp/src/CardClient.cs
