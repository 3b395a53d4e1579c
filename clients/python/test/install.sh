#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

# The distribution's Python finds the distribution's requests, httpx and aiohttp.
python=python3
if [ -x /usr/bin/python3 ]; then python=/usr/bin/python3; fi

cp -r . "$dir/source"
"$python" -m venv --system-site-packages "$dir/venv"
pip=("$dir/venv/bin/python" -m pip --quiet --disable-pip-version-check)
"${pip[@]}" wheel --no-index --no-build-isolation --no-deps --wheel-dir "$dir/dist" "$dir/source"
rm -r "$dir/source"
"${pip[@]}" install --no-index --no-deps "$dir"/dist/card_gateway_client-*.whl
cat >"$dir/run" <<END
#!/usr/bin/env bash
exec "$dir/venv/bin/python" -W ignore::DeprecationWarning "\$@"
END
chmod +x "$dir/run"
