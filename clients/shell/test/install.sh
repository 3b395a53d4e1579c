#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

tar -czf "$dir/card-request.tar.gz" card-request README.md LICENSE
mkdir "$dir/app"
tar -xzf "$dir/card-request.tar.gz" -C "$dir/app"
cat >"$dir/run" <<END
#!/usr/bin/env bash
export PATH=$dir/app:\$PATH
case \$1 in
*.py) exec python3 "\$@" ;;
*) exec bash "\$@" ;;
esac
END
chmod +x "$dir/run"
