#!/usr/bin/env bash
# install.sh DIR packs this client, and installs it from the packed artefact in
# the empty directory DIR. `DIR/run FILE` then runs a program with it.
set -euo pipefail
dir=$1
cd "$(dirname "$0")/.."

# The distribution's OkHttp, for the interceptor alone.
okhttp=/usr/share/java/okhttp.jar:/usr/share/java/okio.jar

mkdir -p "$dir/built/META-INF/maven/io.github.card-gateway/card-gateway-client" "$dir/classes"
mapfile -t sources < <(find src/main/java -name '*.java')
javac --release 11 -encoding UTF-8 -Xlint:all -Werror -cp "$okhttp" -d "$dir/built" "${sources[@]}"
cp LICENSE "$dir/built/META-INF/"
cp pom.xml "$dir/built/META-INF/maven/io.github.card-gateway/card-gateway-client/"
printf 'Automatic-Module-Name: io.github.cardgateway\n' >"$dir/manifest"
jar --create --file "$dir/card-gateway-client.jar" --manifest "$dir/manifest" -C "$dir/built" .
rm -r "$dir/built"
cat >"$dir/run" <<END
#!/usr/bin/env bash
set -euo pipefail
path=$dir/card-gateway-client.jar:$dir/classes
if grep -q okhttp3 "\$1"; then path+=:$okhttp; fi
javac -encoding UTF-8 -cp "\$path" -d "$dir/classes" "\$1"
name=\$(sed -n 's/^package \(.*\);/\1./p' "\$1")\$(basename "\${1%.java}")
exec java -cp "\$path" "\$name"
END
chmod +x "$dir/run"
