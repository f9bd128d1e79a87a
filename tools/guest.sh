#!/usr/bin/env bash
# Makes target/guest: the kernel that tests/guest boots, Debian's, and the modules that emulated
# paths and the kernel's own BBR need. Installs QEMU first, and says so; quick the second time.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly FOLDER=$PWD/target/guest
# The kernel has to have cong_control() with four arguments: Linux 6.10 or later. Debian 12 has one
# under the first name, Debian 13 and later under the second.
readonly SERIES=(linux-image-6.12-cloud-amd64 linux-image-cloud-amd64)
readonly MODULES=(tun veth tcp_bbr)

say() { echo "guest: $*"; }

if [[ $(uname -m) != x86_64 ]]; then
	say "SKIPPED: needs an x86-64 machine, this is $(uname -m)"
	exit
fi
bash tools/setup.sh busybox-static binutils qemu-system-x86 xz-utils

if [[ -f $FOLDER/vmlinuz ]]; then
	exit
fi

# What a package of a series stands for: the one of its newest version.
package=
for series in "${SERIES[@]}"; do
	depends=$(apt-cache depends "$series" 2>/dev/null || true)
	package=$(sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' <<<"$depends")
	[[ -z $package ]] || break
done
if [[ -z $package ]]; then
	say "apt knows neither of ${SERIES[*]}" >&2
	say "fix: apt-get update, on Debian 12 or later" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say "fetching $package (apt)"
if ! (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package"); then
	say "fix: apt-get update, then again" >&2
	exit 1
fi
dpkg-deb -x "$work"/*.deb "$work/package"

rm -rf "$FOLDER"
mkdir -p "$FOLDER/modules"
for module in "${MODULES[@]}"; do
	file=$(find "$work/package" -name "$module.ko*")
	case $file in
	*.ko.xz) xz -dc "$file" >"$FOLDER/modules/$module.ko" ;;
	*.ko) cp "$file" "$FOLDER/modules/" ;;
	*)
		file=${file:-none}
		say "$package has no module $module, or packs it in a way unknown here: $file" >&2
		exit 1
		;;
	esac
done
# Last: what is there is whole.
cp "$work"/package/boot/vmlinuz-* "$FOLDER/vmlinuz.new"
mv "$FOLDER/vmlinuz.new" "$FOLDER/vmlinuz"
