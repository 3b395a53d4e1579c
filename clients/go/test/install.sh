#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

# It must build with the oldest Go that go.mod names.
GOTOOLCHAIN=go1.16 GOFLAGS=-mod=mod go vet .
go run ./test/pack "$dir/proxy"
mkdir "$dir/app"
cd "$dir/app"
export GOTOOLCHAIN=local GOFLAGS='-mod=mod -modcacherw' GOPROXY=file://$dir/proxy GOSUMDB=off GOMODCACHE=$dir/modules
go mod init example.com/app
go get github.com/card-gateway/card-gateway/clients/go@latest
cat >"$dir/run" <<END
#!/usr/bin/env bash
set -euo pipefail
export GOTOOLCHAIN=local GOFLAGS='-mod=mod -modcacherw' GOPROXY=off GOSUMDB=off GOMODCACHE=$dir/modules
program=$dir/app/\$(basename "\${1%.go}")-bin
cp "\$1" $dir/app/main.go
cd $dir/app
go build -o "\$program" main.go
exec "\$program" "\${@:2}"
END
chmod +x "$dir/run"
