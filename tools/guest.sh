#!/usr/bin/env bash
# Makes target/guest/KERNEL, which tests/guest boots: a Debian kernel, some of its modules, and
# busybox. Installs QEMU first if it is missing, and prints that; further runs are quick. The host
# does not change otherwise: packages are unpacked, not installed.
#
#   tools/guest.sh [--headers] [KERNEL...]
#
# KERNEL is a series, such as 6.1. The default is 6.12, because BPF's cong_control() has all its
# arguments since 6.10. With --headers there is also target/guest/KERNEL/headers, where
# tools/module.sh builds a module for this kernel.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

# For links and netem, and the kernel's own congestion control for comparison.
readonly MODULES=(tun veth sch_netem tcp_bbr tcp_dctcp tcp_illinois tcp_vegas tcp_westwood)

say() { echo "guest: $*"; }
fail() {
	printf 'guest: %s\n' "$@" >&2
	exit 1
}

# Prints the newest kernel package of a series; nothing if apt knows none.
newest() {
	local series=$1 meta depends package version
	# Debian has a metapackage for each series, except for the series of its release.
	for meta in "linux-image-$series-cloud-amd64" linux-image-cloud-amd64; do
		depends=$(apt-cache depends "$meta" 2>/dev/null || true)
		package=$(sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' <<<"$depends")
		version=${package#linux-image-}
		if [[ $version == "$series".* ]]; then
			echo "$package"
			return
		fi
	done
}

# Prints the dependencies of a package that match a pattern.
depends() { apt-cache depends "$1" | sed -n "s/^ *Depends: \($2\)\$/\1/p"; }

version() { apt-cache show --no-all-versions "$1" | sed -n 's/^Version: //p'; }

# Copies a module, unpacked.
put_module() {
	local module=$1 from=$2 into=$3 file
	file=$(find "$from" -name "$module.ko*")
	case $file in
	*.ko.xz) xz -dc "$file" >"$into/$module.ko" ;;
	*.ko) cp "$file" "$into/" ;;
	*) fail "the kernel package has no $module.ko or $module.ko.xz: ${file:-no such file}" ;;
	esac
}

# Makes a folder in which modules can be built, from unpacked packages.
put_headers() {
	local release=$1 from=$2 into=$3
	mkdir -p "$into/packages"
	mv "$from/usr/src" "$from/usr/lib" "$into/packages/"
	ln -s "packages/src/linux-headers-$release" "$into/headers"
	# All other paths there are relative, and work anywhere.
	sed -i 's|/usr/src/|../|' "$into/headers/Makefile"
}

make_folder() {
	local series=$1 folder=$PWD/target/guest/$1 image release package module
	local packages=(busybox-static)
	image=$(newest "$series")
	if [[ -z $image ]]; then
		fail "apt does not know a Debian kernel of the series $series" \
			"fix: apt-get update; apt-cache search linux-image-cloud lists all"
	fi
	release=${image#linux-image-}
	packages+=("$image=$(version "$image")")
	if [[ -n $headers ]]; then
		# The version must be the kernel's, or the kernel does not load the modules.
		package=linux-headers-$release
		packages+=("$package=$(version "$image")" "$(depends "$package" 'linux-kbuild-.*')"
			"$(depends "$package" 'linux-headers-.*-common')")
	fi
	work=$(mktemp -d)
	say "fetching ${packages[*]} (apt)"
	(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "${packages[@]}") ||
		fail "fix: run apt-get update, then try again"
	for package in "$work"/*.deb; do
		dpkg-deb -x "$package" "$work/unpacked"
	done

	rm -rf "$folder"
	mkdir -p "$folder/modules"
	for module in "${MODULES[@]}"; do
		put_module "$module" "$work/unpacked/lib/modules" "$folder/modules"
	done
	[[ -z $headers ]] || put_headers "$release" "$work/unpacked" "$folder"
	cp "$work/unpacked/boot/vmlinuz-$release" "$folder/vmlinuz"
	cp "$(find "$work/unpacked" -path '*/bin/busybox')" "$folder/busybox"
	rm -rf "$work"
}

if [[ $(uname -m) != x86_64 ]]; then
	fail "needs an x86-64 machine, this is $(uname -m)" \
		"fix: leave out --guest to use this machine's kernel (as root)"
fi
headers=
if [[ ${1-} == --headers ]]; then
	headers=yes
	shift
fi
bash tools/setup.sh binutils qemu-system-x86 xz-utils

work=
trap 'rm -rf "$work"' EXIT
wanted=$(sha256sum <"$0")
for series in "${@:-6.12}"; do
	made_by=target/guest/$series/made-by
	if [[ -f $made_by && $(<"$made_by") == "$wanted" ]] &&
		[[ -z $headers || -e target/guest/$series/headers ]]; then
		continue
	fi
	make_folder "$series"
	# Write this last, so that it marks a complete folder.
	echo "$wanted" >"$made_by"
done
