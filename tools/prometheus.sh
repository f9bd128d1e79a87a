#!/usr/bin/env bash
# Unpacks Debian's Prometheus into target/prometheus, for the test of the agent's metrics. Nothing
# is installed and no service is started. Further runs are quick.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly PACKAGE=prometheus
readonly FOLDER=$PWD/target/prometheus

if [[ ! -x $FOLDER/usr/bin/prometheus ]]; then
	work=$(mktemp -d)
	echo "prometheus: fetching $PACKAGE, 19 MB (apt)"
	if ! (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$PACKAGE"); then
		echo "prometheus: SKIPPED: it cannot be fetched" >&2
		echo "prometheus: fix: run apt-get update, then try again" >&2
		rm -rf "$work"
		exit 0
	fi
	dpkg-deb --extract "$work/$PACKAGE"*.deb "$work/root"
	rm -rf "$FOLDER"
	# Move at the end, so that an existing folder is complete.
	mv "$work/root" "$FOLDER"
	rm -rf "$work"
fi
