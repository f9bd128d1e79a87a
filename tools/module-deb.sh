#!/usr/bin/env bash
# Builds remuda-dkms, the Debian package with the kernel module's source, into target/kernel/deb,
# and prints its path. Installs missing build packages first, and prints their names.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

bash tools/setup.sh debhelper dh-dkms dpkg-dev

readonly FOLDER=$PWD/target/kernel/deb
rm -rf "$FOLDER"
mkdir -p "$FOLDER"
# The package has the headers shared with other datapaths below the module's folder.
cp -r datapath/kernel "$FOLDER/remuda"
mkdir "$FOLDER/remuda/include"
cp datapath/vm/include/*.h datapath/tcp/*.h "$FOLDER/remuda/include/"
(cd "$FOLDER/remuda" && dpkg-buildpackage -us -uc -b >"$FOLDER/log" 2>&1) || {
	tail -20 "$FOLDER/log" >&2
	exit 1
}
ls "$FOLDER"/*.deb
