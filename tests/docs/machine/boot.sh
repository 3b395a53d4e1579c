#!/usr/bin/env bash
# Makes an empty machine of this one, in namespaces of its own, and runs a script
# in it: everything that it writes is gone at the end. Run by deployment_test.go:
#
#   unshare -Urmnpf --kill-child tests/docs/machine.sh ROOT REPOSITORY BINARY SCRIPT
set -euo pipefail
root=$1 repository=$2 binary=$3 script=$4

mount -t tmpfs tmpfs "$root"
new=$root/new
mkdir -p "$new"/{dev,proc,run,tmp,var/lib,var/log,usr,etc}
for part in usr etc; do
	mkdir -p "$root/$part"/{upper,work}
	mount -t overlay overlay -o "lowerdir=/$part,upperdir=$root/$part/upper,workdir=$root/$part/work" "$new/$part"
done
for link in bin sbin lib lib64; do
	if [ -e "/$link" ]; then ln -s "usr/$link" "$new/$link"; fi
done
mount --rbind /dev "$new/dev"
mount -t proc proc "$new/proc"
# The address of the page's metrics listener.
echo 1 >/proc/sys/net/ipv4/ip_nonlocal_bind

mkdir -p "$new/src/bin" "$new/stubs" "$new/backup" "$new/usr/local/bin" "$new/etc/systemd/system"
cp "$binary" "$new/src/bin/card-gateway-production"
cp -r "$repository/ops" "$repository/Caddyfile.example" "$new/src/"
cp "$script" "$new/src/script"
# One user is all that this namespace has.
echo 'card-gateway:x:0:0::/:/bin/false' >>"$new/etc/passwd"
echo 'card-gateway:x:0:' >>"$new/etc/group"
echo 'exit 0' >"$new/stubs/systemd-sysusers"
# What systemd does with the unit, so far as the pages rely on it.
cat >"$new/stubs/systemctl" <<'END'
start() {
	if [ -e /run/pid ]; then
		kill "$(cat /run/pid)"
		while kill -0 "$(cat /run/pid)" 2>/dev/null; do sleep 0.05; done
	fi
	mkdir -p /run/card-gateway /var/lib/card-gateway /var/log/card-gateway
	card-gateway card-unit run --config /etc/card-gateway/Caddyfile --adapter caddyfile >>/run/journal 2>&1 &
	echo $! >/run/pid
	card-gateway card-status --live --wait 30s --address unix//run/card-gateway/admin.sock >>/run/journal 2>&1
}
case $1 in
enable|restart) start ;;
reload) card-gateway card-unit reload --config /etc/card-gateway/Caddyfile --adapter caddyfile --force >>/run/journal 2>&1 ;;
daemon-reload) ;;
*) echo "systemctl $1 is not known here" >&2 && exit 1 ;;
esac
END
sed -i '1i #!/usr/bin/env bash' "$new/stubs/systemctl" "$new/stubs/systemd-sysusers"
chmod +x "$new/stubs"/*
# shellcheck disable=SC2016 # the inner shell expands it
exec chroot "$new" /usr/bin/env -i PATH=/stubs:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin bash -c \
	'cd /src && bash -euxo pipefail script 2>&1 || { code=$?; tail -40 /run/journal; exit $code; }'
