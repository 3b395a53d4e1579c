#!/bin/sh
# After files are unpacked, at an installation and at an upgrade. $1 is `configure`
# with the old version (deb), or the number of installed versions (rpm).
set -e
case $1 in configure|[0-9]*) ;; *) exit 0 ;; esac

systemd-sysusers card-gateway.conf
# Only the owner and the mode that the guide asks for; the contents are the
# operator's.
for path in /etc/card-gateway /etc/card-gateway/Caddyfile /etc/card-gateway/environment; do
	if [ -e "$path" ]; then chown root:card-gateway "$path"; fi
done

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade takes effect at once, where the gateway runs. Requests in flight
	# are finished.
	systemctl try-restart card-gateway.service
fi

if [ ! -e /etc/card-gateway/master.key ]; then
	cat <<-END
		Card Gateway is installed and not started: it has no master key yet. As root:

		  (umask 077; openssl rand -base64 32 > /etc/card-gateway/master.key)

		Keep a copy of it elsewhere; without it no stored secret can be opened. Set
		CARD_ISSUER in /etc/card-gateway/environment, make /etc/card-gateway/Caddyfile
		yours, then: systemctl enable --now card-gateway
	END
fi
