#!/usr/bin/env bash
# Makes target/guest/systemd, which SystemdGuest of tests/guest boots: the root file system of a
# small Debian 13 with systemd, that release's kernel, and busybox and modules that mount the root.
# The root file system is read-only; a guest's changes stay in the guest's memory.
#
# Installs mmdebstrap, QEMU and squashfs-tools first if they are missing, and prints that; further
# runs are quick. The host does not change otherwise. The packages come from the Debian mirror that
# this host's apt uses, else from mmdebstrap's default.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly RELEASE=trixie FOLDER=$PWD/target/guest/systemd
# Beside Debian's essential packages. kmod loads modules; libelf1t64, libgcc-s1 and zlib1g are the
# libraries of remuda; iperf3, nginx and python3 make flows; bpftool lists what the kernel has.
readonly PACKAGES=(bpftool dbus iperf3 iproute2 kmod libelf1t64 libgcc-s1 nginx procps python3
	systemd systemd-sysv zlib1g)
# All that the kernel needs to mount the root file system and is not part of it.
readonly MODULES=(virtio_blk squashfs overlay)

say() { echo "systemd-guest: $*"; }
fail() {
	printf 'systemd-guest: %s\n' "$@" >&2
	exit 1
}

# mmdebstrap runs this with the new root's folder as $1, as a user who can write there. The kernel
# is only unpacked: its package would install tools that make an initramfs.
# shellcheck disable=SC2016 # The variables are those of the hook's shell.
readonly HOOK='
set -eu
export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
kernel=$(apt-cache depends linux-image-cloud-amd64 |
	sed -n "s/^ *Depends: \(linux-image-.*\)/\1/p")
release=${kernel#linux-image-}
mkdir "$1/kernel"
cd "$1/kernel"
apt-get download -qq -o APT::Sandbox::User=root "$kernel" busybox-static
for package in *.deb; do
	dpkg-deb -x "$package" unpacked
done
mv "$(find unpacked -type d -path "*/lib/modules/$release")" "$1/usr/lib/modules.new"
mkdir -p "$1/usr/lib/modules"
mv "$1/usr/lib/modules.new" "$1/usr/lib/modules/$release"
chroot "$1" depmod "$release"
mv "unpacked/boot/vmlinuz-$release" vmlinuz
mv "$(find unpacked -path "*/bin/busybox")" busybox
for module in '"${MODULES[*]}"'; do
	cp "$(find "$1/usr/lib/modules/$release" -name "$module.ko*")" .
done
rm -r ./*.deb unpacked
# The tests start nginx themselves.
rm "$1/etc/systemd/system/multi-user.target.wants/nginx.service"
# All is up to date, so a boot need not bring it up to date.
touch "$1/etc/.updated" "$1/var/.updated"
'

# The mirror of Debian that this host uses; nothing if it uses none.
mirror() {
	apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Origin: Debian' \
		'Label: Debian' | sort -u | head -n 1
}

make_folder() {
	local from module
	from=$(mirror)
	work=$(mktemp -d)
	say "making a Debian $RELEASE with ${PACKAGES[*]} (mmdebstrap)"
	if ! mmdebstrap --quiet --variant=essential --include="${PACKAGES[*]}" \
		--customize-hook="$HOOK" --customize-hook="copy-out /kernel $work" \
		--customize-hook="rm -r \"\$1/kernel\"" \
		"$RELEASE" "$work/root.tar" ${from:+"$from"} 2>"$work/log"; then
		tail -n 30 "$work/log" >&2
		fail "mmdebstrap failed" "fix: run apt-get update, then try again"
	fi
	rm -rf "$FOLDER"
	mkdir -p "$FOLDER/modules"
	# A guest's emulated processor would take long to decompress.
	mksquashfs - "$FOLDER/root.squashfs" -tar -noI -noD -noF -noX -quiet -no-progress \
		<"$work/root.tar" >"$work/log" 2>&1 || fail "mksquashfs failed: $(<"$work/log")"
	mv "$work/kernel/vmlinuz" "$work/kernel/busybox" "$FOLDER/"
	for module in "${MODULES[@]}"; do
		[[ ! -f $work/kernel/$module.ko.xz ]] || xz -d "$work/kernel/$module.ko.xz"
		mv "$work/kernel/$module.ko" "$FOLDER/modules/"
	done
	rm -rf "$work"
}

if [[ $(uname -m) != x86_64 ]]; then
	fail "needs an x86-64 machine, this is $(uname -m)"
fi
bash tools/setup.sh binutils mmdebstrap qemu-system-x86 squashfs-tools xz-utils

work=
trap 'rm -rf "$work"' EXIT
wanted=$(sha256sum <"$0")
if [[ ! -f $FOLDER/made-by || $(<"$FOLDER/made-by") != "$wanted" ]]; then
	make_folder
	# Write this last, so that it marks a complete folder.
	echo "$wanted" >"$FOLDER/made-by"
fi
