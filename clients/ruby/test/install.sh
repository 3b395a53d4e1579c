#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

gem build --quiet --strict --output "$dir/card_gateway_client.gem" card_gateway_client.gemspec
gem install --quiet --local --no-document --install-dir "$dir/gems" "$dir/card_gateway_client.gem"
cat >"$dir/run" <<END
#!/usr/bin/env bash
export GEM_PATH=$dir/gems:\$(gem env gempath)
exec ruby -W1 "\$@"
END
chmod +x "$dir/run"
