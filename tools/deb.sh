#!/usr/bin/env bash
# Builds the Debian package remuda from a built command, and prints the package's path.
#
#   tools/deb.sh [--program FILE] [--version VERSION] [--into DIR]
#
# By default the command is target/release/remuda, the version is that of the workspace, and the
# package is below target/deb. Installs missing build packages first, and prints their names.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

program=target/release/remuda
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
folder=target/deb
while (($#)); do
	case $1 in
	--program) program=$2 ;;
	--version) version=$2 ;;
	--into) folder=$2 ;;
	*)
		echo "deb: $1: not an option; they are --program, --version and --into" >&2
		exit 2
		;;
	esac
	shift 2
done
if [[ ! -x $program ]]; then
	echo "deb: $program: there is no such command" >&2
	echo "fix: make build" >&2
	exit 1
fi
bash tools/setup.sh debhelper dpkg-dev python3

readonly HERE=$folder/remuda
rm -rf "$HERE" "$folder"/remuda_*.deb "$folder"/remuda_*.buildinfo "$folder"/remuda_*.changes
mkdir -p "$HERE/completions"
cp "$program" "$HERE/remuda"
cp packaging/remuda.toml "$HERE/"
cp -r packaging/debian packaging/grafana "$HERE/"
cp packaging/systemd/remuda.service "$HERE/debian/remuda.service"
cp packaging/systemd/remuda-broker.service "$HERE/debian/remuda.remuda-broker.service"
cp packaging/sysusers.d/remuda.conf "$HERE/debian/remuda.sysusers"
cp packaging/tmpfiles.d/remuda.conf "$HERE/debian/remuda.tmpfiles"
sed -i "s/VERSION/$version/" "$HERE/debian/changelog"
python3 tools/notices.py >"$HERE/third-party-notices"
"$program" manual "$HERE/manual"
"$program" completions bash >"$HERE/completions/remuda"
"$program" completions zsh >"$HERE/completions/_remuda"
"$program" completions fish >"$HERE/completions/remuda.fish"
(cd "$HERE" && dpkg-buildpackage -us -uc -b >../log 2>&1) || {
	tail -20 "$folder/log" >&2
	exit 1
}
ls "$folder"/*.deb
