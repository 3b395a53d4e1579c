#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it. Mono
# compiles and runs; C# 7.0 is what the project file names.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

mkdir "$dir/built" "$dir/app"
mcs -langversion:7 -warn:4 -warnaserror -target:library -r:System.Net.Http.dll \
	-out:"$dir/built/CardGateway.Client.dll" -doc:"$dir/built/CardGateway.Client.xml" src/*.cs
python3 test/pack.py "$dir/built/CardGateway.Client.dll" "$dir/built/CardGateway.Client.xml" "$dir"
rm -r "$dir/built"
python3 -m zipfile -e "$dir"/CardGateway.Client.*.nupkg "$dir/package"
cp "$dir/package/lib/net461/CardGateway.Client.dll" "$dir/app/"

# The driver writes JSON with the client's own code, which is not public.
cp src/JsonWriter.cs "$dir/"
cat >"$dir/run" <<END
#!/usr/bin/env bash
set -euo pipefail
program=$dir/app/\$(basename "\${1%.cs}").exe
sources=("\$1")
if [ "\$(basename "\$1")" = Driver.cs ]; then sources+=("$dir/JsonWriter.cs"); fi
mcs -langversion:7 -r:"$dir/app/CardGateway.Client.dll" -r:System.Net.Http.dll -out:"\$program" "\${sources[@]}"
exec mono "\$program" "\${@:2}"
END
chmod +x "$dir/run"
