#!/bin/sh
# Runs the tests that need Redis against the servers of Debian 13, Redis 8 and Valkey 8,
# and against the redis-server of this machine. The packages are unpacked beside this
# system and run by their own loader: nothing is installed. It takes about ten minutes
# for each server.
#
#	tests/stores.sh [FOLDER]   where the packages are kept, default: bin/stores
set -eu
folder=$(realpath -m "${1:-bin/stores}")
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
: >"$folder/status"

# apt with a package list, a cache and an empty list of installed packages of its own.
# shellcheck disable=SC2016 # apt expands it
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -n 1)
echo "deb $mirror trixie main" >"$folder/sources.list"
fetch() {
	apt-get -q -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$folder/lists" \
		-o Dir::Cache="$folder/cache" -o Dir::State::status="$folder/status" -o APT::Sandbox::User="$(id -un)" "$@" >"$folder/apt.log" ||
		{ cat "$folder/apt.log"; exit 1; }
}
fetch update
fetch install -y --no-install-recommends --download-only redis-server valkey-server
for package in "$folder"/cache/archives/*.deb; do dpkg -x "$package" "$folder/root"; done
libraries=$(dirname "$(find "$folder/root/usr/lib" -name 'libc.so.6')")
for server in redis valkey; do
	mkdir -p "$folder/$server"
	printf '#!/bin/sh\nexec %s --library-path %s %s "$@"\n' "$libraries"/ld-linux-*.so.* "$libraries" "$folder/root/usr/bin/$server-server" >"$folder/$server/redis-server"
	chmod +x "$folder/$server/redis-server"
done

failed=0
for server in '' redis valkey; do
	(
		PATH=${server:+$folder/$server:}$PATH
		redis-server --version
		go test -count=1 -timeout 40m ./store/redis/... ./tests/redis ./tests/faults
	) || failed=1
done
exit $failed
