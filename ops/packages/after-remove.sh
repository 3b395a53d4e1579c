#!/bin/sh
# After files are removed. $1 is `remove`, `purge` or `upgrade` (deb), or the number
# of versions that are left (rpm).
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi

# Not even a purge removes keys, audit record and master key: they may be the only
# copies. Nobody else gets the user's number, because the user stays too.
case $1 in
purge|0)
	for path in /etc/card-gateway/master.key /var/lib/card-gateway /var/log/card-gateway; do
		if [ -e "$path" ]; then left="${left-}  $path
"; fi
	done
	if [ -n "${left-}" ]; then
		printf 'Card Gateway is removed. Left for you to keep or to remove:\n%s' "$left"
	fi
	;;
esac
