#!/usr/bin/env bash
# Builds the kernel module of a folder for a kernel, without a new file in that folder. A warning
# is an error. Quick the second time. Prints the path of what it built.
#
#   tools/module.sh KERNEL [FOLDER]
#   tools/module.sh --running [FOLDER]
#
# KERNEL is a folder with `headers`, as tools/guest.sh --headers and tools/debug-kernel.sh make it;
# --running is the kernel that runs here, whose headers are installed. FOLDER, within this
# repository, is datapath/kernel without one. Its copy is target/kernel/NAME OF THE KERNEL/FOLDER;
# what it shares with other datapaths lies likewise, so that $(src)/../vm/include is right in a
# Kbuild.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

fail() {
	printf 'module: %s\n' "$@" >&2
	exit 1
}

kernel=${1:?which kernel, such as target/guest/6.1}
folder=${2:-datapath/kernel}
folder=${folder%/}
sources=("$folder" datapath/vm/include datapath/tcp)
if [[ $kernel == --running ]]; then
	name=$(uname -r)
	headers=/lib/modules/$name/build
	version=$name
	fix="apt-get install linux-headers-$name"
else
	name=$(basename "$kernel")
	headers=$kernel/headers
	version=$kernel/made-by
	fix="tools/guest.sh --headers $name, or tools/debug-kernel.sh"
fi
if [[ ! -e $headers/Makefile ]]; then
	fail "$headers: nothing to build a module with" "fix: $fix"
fi
if [[ ! -e $folder/Kbuild ]]; then
	fail "$folder has no Kbuild: it is not the folder of a module"
fi

build=$PWD/target/kernel/$name
made_by=$build/$folder/made-by
wanted=$(
	{
		sha256sum <"$0"
		if [[ -f $version ]]; then sha256sum "$version"; else echo "$version"; fi
		find "${sources[@]}" -type f -print0 | sort -z | xargs -0 sha256sum
	} | sha256sum
)
# Tests that run beside each other want the same one.
mkdir -p "$build"
exec {lock}>"$build/lock"
flock "$lock"
if [[ ! -f $made_by || $(<"$made_by") != "$wanted" ]]; then
	for source in "${sources[@]}"; do
		rm -rf "${build:?}/$source"
		mkdir -p "$(dirname "$build/$source")"
		cp -r "$source" "$build/$source"
	done
	# Types of the kernel's BPF are of no use in a module, and writing them takes a tool more.
	make -s -C "$headers" M="$build/$folder" W=1 KCFLAGS=-Werror \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2
	# Last: what is there is whole.
	echo "$wanted" >"$made_by"
fi
ls "$build/$folder"/*.ko
