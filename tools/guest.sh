#!/usr/bin/env bash
# Makes target/guest, what tests/guest boots: a kernel of Debian's, the modules that emulated paths
# and the kernel's own BBR need, and busybox. Installs QEMU first, and says so; quick the second
# time. Nothing else of the host changes: kernel and busybox are unpacked, not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly FOLDER=$PWD/target/guest
# Debian 12 has the first name, in its security archive; Debian 13 and later the second.
readonly SERIES=(linux-image-6.12-cloud-amd64 linux-image-cloud-amd64)
# cong_control() has four arguments since.
readonly OLDEST=6.10
readonly MODULES=(tun veth tcp_bbr)

say() { echo "guest: $*"; }

if [[ $(uname -m) != x86_64 ]]; then
	say "needs an x86-64 machine, this is $(uname -m)" >&2
	say "fix: without --guest, the same runs on this machine's kernel (root)" >&2
	exit 1
fi
bash tools/setup.sh binutils qemu-system-x86 xz-utils

wanted=$(sha256sum "$0")
if [[ -f $FOLDER/made-by && $(<"$FOLDER/made-by") == "$wanted" ]]; then
	exit
fi

# What a package of a series stands for: the one of its newest version.
kernel=
for series in "${SERIES[@]}"; do
	depends=$(apt-cache depends "$series" 2>/dev/null || true)
	kernel=$(sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' <<<"$depends")
	version=${kernel#linux-image-}
	if [[ -n $kernel ]] && dpkg --compare-versions "${version%%[+-]*}" ge "$OLDEST"; then
		break
	fi
	kernel=
done
if [[ -z $kernel ]]; then
	say "apt knows no Debian kernel of Linux $OLDEST or later: ${SERIES[*]}" >&2
	say "fix: apt-get update; Debian 12 has one in its security archive" >&2
	exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for package in "$kernel" busybox-static; do
	say "fetching $package (apt)"
	if ! (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package"); then
		say "fix: apt-get update, then again" >&2
		exit 1
	fi
done
for package in "$work"/*.deb; do
	dpkg-deb -x "$package" "$work/unpacked"
done

rm -rf "$FOLDER"
mkdir -p "$FOLDER/modules"
for module in "${MODULES[@]}"; do
	file=$(find "$work/unpacked" -name "$module.ko*")
	case $file in
	*.ko.xz) xz -dc "$file" >"$FOLDER/modules/$module.ko" ;;
	*.ko) cp "$file" "$FOLDER/modules/" ;;
	*)
		say "$kernel has no $module.ko or $module.ko.xz: ${file:-nothing like it}" >&2
		exit 1
		;;
	esac
done
cp "$work"/unpacked/boot/vmlinuz-* "$FOLDER/vmlinuz"
cp "$(find "$work/unpacked" -path '*/bin/busybox')" "$FOLDER/busybox"
# Last: what is there is whole.
echo "$wanted" >"$FOLDER/made-by"
