#!/usr/bin/env bash
# Unpacks Debian packages whose programs tests run: tools/unpack.sh PACKAGE...
#
# Each is unpacked into target/PACKAGE. Nothing is installed and no service is started. Further runs
# are quick.
set -euo pipefail
cd "$(dirname "$0")/.."

for package in "$@"; do
	folder=$PWD/target/$package
	if [[ -e $folder ]]; then
		continue
	fi
	work=$(mktemp -d)
	echo "$package: fetching it (apt)"
	if ! (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package"); then
		echo "$package: SKIPPED: it cannot be fetched" >&2
		echo "$package: fix: run apt-get update, then try again" >&2
		rm -rf "$work"
		continue
	fi
	dpkg-deb --extract "$work/$package"*.deb "$work/root"
	# Move at the end, so that an existing folder is complete.
	mkdir -p target
	mv "$work/root" "$folder"
	rm -rf "$work"
done
