#!/usr/bin/env bash
# Makes an empty machine out of this one, in namespaces of its own: the programs
# and the settings of this machine, nothing of its data, and nothing that it
# writes is kept. Then it becomes the first process of that machine: systemd, or
# one that only waits. Started by lab_test.go:
#
#   boot.sh ROOT NAME systemd|none
set -euo pipefail
root=$1 name=$2 init=$3
here=$(cd "$(dirname "$0")" && pwd)

hostname "$name"
mount -t tmpfs -o mode=0755 tmpfs "$root"
new=$root/new
mkdir "$new"
mount -t tmpfs -o mode=0755 tmpfs "$new"
mkdir -p "$new"/{dev,proc,sys,run,tmp,root,backup,stubs,usr,etc,var/lib,var/log}
ln -s /run "$new/var/run"
for part in usr etc; do
	mkdir -p "$root/$part"/{upper,work}
	mount -t overlay overlay -o "lowerdir=/$part,upperdir=$root/$part/upper,workdir=$root/$part/work" "$new/$part"
done
for link in bin sbin lib lib64; do
	if [ -e "/$link" ]; then ln -s "usr/$link" "$new/$link"; fi
done
mount -t tmpfs -o mode=0755 tmpfs "$new/dev"
mkdir "$new/dev/shm" "$new/dev/pts"
chmod 1777 "$new/dev/shm" "$new/tmp"
for device in null zero full random urandom tty; do
	touch "$new/dev/$device"
	mount --bind "/dev/$device" "$new/dev/$device"
done
for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "$new/dev/${stream#*:}"; done
ln -s /proc/self/fd "$new/dev/fd"
ln -s pts/ptmx "$new/dev/ptmx"
mount -t proc proc "$new/proc"
# The settings of the kernel are those of the real machine.
mount --bind "$new/proc/sys" "$new/proc/sys"
mount -o remount,bind,ro "$new/proc/sys"
ip link set lo up

cp "$here/apt" "$new/stubs/"
if [ "$(wc -l </proc/self/uid_map)" = 1 ] && read -r _ _ ids </proc/self/uid_map && [ "$ids" = 1 ]; then
	# One user is all that this namespace has: the directories of others cannot be
	# written.
	for dir in etc/redis etc/haproxy etc/systemd/system usr/lib/sysusers.d usr/local/bin; do
		if [ ! -d "$new/$dir" ]; then mkdir -p "$new/$dir"; fi
		mount -t tmpfs -o mode=0755 tmpfs "$new/$dir"
	done
	echo 'dir /var/lib/redis' >"$new/etc/redis/redis.conf"
	sed -i -E '/^(card-gateway|redis|haproxy):/d' "$new/etc/passwd" "$new/etc/group"
	for user in card-gateway redis haproxy; do
		echo "$user:x:0:0::/:/bin/false" >>"$new/etc/passwd"
		echo "$user:x:0:" >>"$new/etc/group"
	done
	printf '#!/bin/sh\n' >"$new/stubs/systemd-sysusers"
	chmod +x "$new/stubs/systemd-sysusers"
fi

# enter becomes a program on the new machine.
enter() {
	cd "$new"
	pivot_root . .
	umount --lazy .
	cd /
	# As systemd wants it: it mounts credentials in one namespace for another.
	mount --make-rshared /
	exec env -i container=card-gateway-test "$@"
}

if [ "$init" = none ]; then
	cp "$here/systemctl" "$here/journalctl" "$new/stubs/"
	enter bash -c 'sleep infinity & wait' # reaps what ends
fi

mount -t sysfs sysfs "$new/sys"
mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
mount -t tmpfs -o mode=0755 tmpfs "$new/run"
# Of the services of this machine only the journal runs there, and what a page starts.
tr -d - </proc/sys/kernel/random/uuid >"$new/etc/machine-id"
: >"$new/etc/fstab"
echo "$name" >"$new/etc/hostname"
units=$new/usr/lib/systemd/system
for wants in "$units"/*.wants "$new"/etc/systemd/system/*.wants "$new"/usr/lib/systemd/system-generators; do
	if [ -d "$wants" ]; then mount -t tmpfs -o mode=0755 tmpfs "$wants"; fi
done
ln -s ../systemd-journald.service "$units/sysinit.target.wants/"
ln -s ../systemd-journald.socket ../systemd-journald-dev-log.socket "$units/sockets.target.wants/"
# Where it says what goes wrong: the output of this script.
touch "$new/dev/console"
mount --bind /proc/self/fd/1 "$new/dev/console"
enter /lib/systemd/systemd --unit=multi-user.target --show-status=0
