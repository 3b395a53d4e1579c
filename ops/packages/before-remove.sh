#!/bin/sh
# Before files are removed. $1 is `remove` or `upgrade` (deb), or the number of
# versions that will be left (rpm). An upgrade goes on serving.
set -e
case $1 in remove|0) ;; *) exit 0 ;; esac
if [ -d /run/systemd/system ]; then systemctl disable --now card-gateway.service; fi
