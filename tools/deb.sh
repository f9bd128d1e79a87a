#!/usr/bin/env bash
# Builds the Debian package remuda from a built command, and prints the package's path.
#
#   tools/deb.sh [--arch arm64] [--program FILE] [--version VERSION] [--into DIR]
#
# By default the command is target/release/remuda, the version is that of the workspace, and the
# package is below target/deb. With --arch arm64, on an amd64 host, the command is the one that
# tools/cross.sh has built, and the package is below target/deb/arm64. Installs missing build
# packages first, and prints their names.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

# The command that runs on this host, to print the manual and the completions.
native=target/release/remuda
program=
architecture=
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
folder=
while (($#)); do
	case $1 in
	--arch) architecture=$2 ;;
	--program) program=$2 ;;
	--version) version=$2 ;;
	--into) folder=$2 ;;
	*)
		echo "deb: $1: not an option; they are --arch, --program, --version, --into" >&2
		exit 2
		;;
	esac
	shift 2
done
case $architecture in
'')
	program=${program:-$native}
	native=$program
	folder=${folder:-target/deb}
	;;
arm64)
	program=${program:-target/aarch64-unknown-linux-gnu/release/remuda}
	folder=${folder:-target/deb/arm64}
	;;
*)
	echo "deb: --arch $architecture: it must be arm64, or left out for this host's" >&2
	exit 2
	;;
esac
for needed in "$native" "$program"; do
	if [[ ! -x $needed ]]; then
		echo "deb: $needed: there is no such command" >&2
		echo "fix: make deb${architecture:+ ARCH=$architecture}" >&2
		exit 1
	fi
done
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
"$native" manual "$HERE/manual"
"$native" completions bash >"$HERE/completions/remuda"
"$native" completions zsh >"$HERE/completions/_remuda"
"$native" completions fish >"$HERE/completions/remuda.fish"
options=()
if [[ -n $architecture ]]; then
	options=("--host-arch=$architecture")
	# dpkg does not know the libraries that tools/cross.sh has unpacked, as they are not
	# installed: where they are, and the packages that contain them.
	glibc=$(readelf --version-info "$program" | grep -o 'GLIBC_[0-9.]*' |
		sort -uV | tail -n 1)
	root=$PWD/target/$architecture/root
	export LIBRARIES=$root/lib/aarch64-linux-gnu:$root/usr/lib/aarch64-linux-gnu
	cat >"$HERE/debian/shlibs.local" <<-END
		libc 6 libc6 (>= ${glibc#GLIBC_})
		libelf 1 libelf1
		libgcc_s 1 libgcc-s1
		libm 6 libc6 (>= ${glibc#GLIBC_})
		libz 1 zlib1g
	END
fi
(cd "$HERE" && dpkg-buildpackage "${options[@]}" -us -uc -b >../log 2>&1) || {
	tail -20 "$folder/log" >&2
	exit 1
}
ls "$folder"/*.deb
