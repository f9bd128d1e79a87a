#!/usr/bin/env bash
# Builds the kernel module in a folder for a kernel, without writing into that folder. A warning is
# an error. Further runs are quick. Prints the path of the module.
#
#   tools/module.sh KERNEL [FOLDER]
#   tools/module.sh --running [FOLDER]
#
# KERNEL is a folder with `headers`, as tools/guest.sh --headers and tools/debug-kernel.sh make it;
# --running means the running kernel, whose headers must be installed. FOLDER lies in this
# repository; the default is datapath/kernel. It is copied to target/kernel/NAME OF THE
# KERNEL/FOLDER, and the headers shared with other datapaths likewise, so that a Kbuild can use
# $(src)/../vm/include.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

fail() {
	printf 'module: %s\n' "$@" >&2
	exit 1
}

kernel=${1:?give a kernel, such as target/guest/6.1}
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
	fail "$headers: the headers of this kernel are missing" "fix: $fix"
fi
if [[ ! -e $folder/Kbuild ]]; then
	fail "$folder has no Kbuild, so it is not the folder of a module"
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
# Tests that run in parallel need the same module.
mkdir -p "$build"
exec {lock}>"$build/lock"
flock "$lock"
if [[ ! -f $made_by || $(<"$made_by") != "$wanted" ]]; then
	for source in "${sources[@]}"; do
		rm -rf "${build:?}/$source"
		mkdir -p "$(dirname "$build/$source")"
		cp -r "$source" "$build/$source"
	done
	# A module does not need BTF, and writing BTF takes one more tool.
	make -s -C "$headers" M="$build/$folder" W=1 KCFLAGS=-Werror \
		CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2
	# Write this last, so that it marks a complete build.
	echo "$wanted" >"$made_by"
fi
ls "$build/$folder"/*.ko
