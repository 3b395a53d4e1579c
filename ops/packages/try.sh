#!/usr/bin/env bash
# Installs a package, changes what operators change, upgrades, removes and purges,
# on a copy of this machine's file system that is thrown away. As root.
#
#   try.sh deb|rpm OLD NEW
set -euo pipefail
format=$1 old=$(realpath "$2") new=$(realpath "$3")

# Everything is in a namespace and a memory file system of its own.
if [ "${INSIDE-}" != copy ]; then
	INSIDE=copy exec unshare --mount --pid --fork "$0" "$format" "$old" "$new"
fi
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work"/{upper,work,root}
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount -t proc proc "$work/root/proc"
mkdir -p "$work/root/packages"
cp "$old" "$work/root/packages/old"
cp "$new" "$work/root/packages/new"

inside() { chroot "$work/root" "$@"; }
fail() { echo "try.sh: $format: $*" >&2; exit 1; }
# is PATH MODE OWNER
is() {
	local found
	found=$(inside stat -c '%a %U:%G' "$1" 2>&1) || fail "$1: $found"
	if [ "$found" != "$2 $3" ]; then fail "$1 is $found; want $2 $3"; fi
}
is_gone() { if inside test -e "$1"; then fail "$1 is still there"; fi; }

case $format in
deb)
	install() { inside dpkg --force-confold -i "$1"; }
	remove() { inside dpkg -r card-gateway; }
	purge() { inside dpkg -P card-gateway; }
	;;
rpm)
	# The files of the machine belong to no rpm, so dependencies are not looked at.
	inside rpm --initdb
	install() { inside rpm -U --replacepkgs --nodeps "$1"; }
	remove() { inside rpm -e card-gateway; }
	purge() { :; }
	;;
*) fail "deb or rpm" ;;
esac

install /packages/old
is /usr/bin/card-gateway 755 root:root
is /usr/lib/systemd/system/card-gateway.service 644 root:root
is /etc/card-gateway 750 root:card-gateway
is /etc/card-gateway/Caddyfile 640 root:card-gateway
is /etc/card-gateway/environment 640 root:card-gateway
is_gone /etc/card-gateway/master.key
if [ "$(inside getent passwd card-gateway | cut -d: -f6)" != /var/lib/card-gateway ]; then fail "the user is not there"; fi

# What an operator and the gateway leave there.
echo '# ours' >>"$work/root/etc/card-gateway/Caddyfile"
echo 'CARD_ISSUER=10.0.0.7:9000' >"$work/root/etc/card-gateway/environment"
echo secret >"$work/root/etc/card-gateway/master.key"
inside install -d -m 0700 -o card-gateway -g card-gateway /var/lib/card-gateway/store
echo keys >"$work/root/var/lib/card-gateway/store/keys.json"
inside install -d -m 0750 -o card-gateway -g card-gateway /var/log/card-gateway
kept=$(inside sha256sum /etc/card-gateway/{Caddyfile,environment,master.key} /var/lib/card-gateway/store/keys.json)

install /packages/new
is /etc/card-gateway/Caddyfile 640 root:card-gateway
is /etc/card-gateway/environment 640 root:card-gateway
if [ "$(inside sha256sum /etc/card-gateway/{Caddyfile,environment,master.key} /var/lib/card-gateway/store/keys.json)" != "$kept" ]; then
	fail "an upgrade has changed what belongs to the operator"
fi
# A package that starts a second time is the same.
install /packages/new

remove
is_gone /usr/bin/card-gateway
is_gone /usr/lib/systemd/system/card-gateway.service
purge >"$work/said"
if [ "$format" = deb ]; then
	is_gone /etc/card-gateway/Caddyfile
	is_gone /etc/card-gateway/environment
	if ! grep -q /etc/card-gateway/master.key "$work/said" || ! grep -q /var/lib/card-gateway "$work/said"; then
		fail "the purge does not say what is left"
	fi
fi
for path in /etc/card-gateway/master.key /var/lib/card-gateway/store/keys.json; do
	inside test -s "$path" || fail "$path is gone: it may have been the only copy"
done
is /var/lib/card-gateway/store 700 card-gateway:card-gateway
echo "$format: installed, upgraded, removed and purged"
