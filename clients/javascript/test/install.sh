#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it. What the
# tests need besides is not in the program's directory.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

quiet=(--silent --no-audit --no-fund --no-update-notifier)
mkdir "$dir/app" "$dir/lib"
npm pack "${quiet[@]}" --pack-destination "$dir"
npm install "${quiet[@]}" --offline --prefix "$dir/app" --omit=peer "$dir"/card-gateway-client-*.tgz
npm install "${quiet[@]}" --prefer-offline --prefix "$dir/lib" axios@1.21.1 form-data@4 typescript@5 @types/node@22

# The types must agree with a program in TypeScript.
cp test/types.ts "$dir/app/"
"$dir/lib/node_modules/.bin/tsc" --noEmit --strict --target es2022 --module nodenext --moduleResolution nodenext \
	--typeRoots "$dir/lib/node_modules/@types" --types node "$dir/app/types.ts"

cat >"$dir/run" <<END
#!/usr/bin/env bash
set -euo pipefail
cp "\$1" "$dir/app/"
export NODE_PATH=$dir/lib/node_modules
exec node "$dir/app/\$(basename "\$1")" "\${@:2}"
END
chmod +x "$dir/run"
