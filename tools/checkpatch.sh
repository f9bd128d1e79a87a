#!/usr/bin/env bash
# Runs the kernel's own style check, scripts/checkpatch.pl, on C files; an error or a warning fails.
# Debian has this script only in the kernel's source package, 140 MB; the files needed are stored in
# target/checkpatch, so further runs are quick.
#
#   tools/checkpatch.sh [FILE...]     without FILE, all files that only the kernel compiles
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

# Any version of the source will do.
readonly PACKAGE=linux-source-6.1
readonly FOLDER=$PWD/target/checkpatch
readonly SCRIPTS=(checkpatch.pl const_structs.checkpatch spelling.txt)

say() { echo "checkpatch: $*"; }
fail() {
	printf 'checkpatch: %s\n' "$@" >&2
	exit 1
}

fetch() {
	local members=("${SCRIPTS[@]/#/$PACKAGE/scripts/}") work
	work=$(mktemp -d)
	say "fetching $PACKAGE, 140 MB (apt)"
	(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$PACKAGE") ||
		fail "fix: run apt-get update, then try again"
	dpkg-deb --fsys-tarfile "$work/$PACKAGE"*.deb |
		tar -xO "./usr/src/$PACKAGE.tar.xz" |
		tar -xJ --strip-components=2 -C "$work" "${members[@]}"
	rm "$work"/*.deb
	rm -rf "$FOLDER"
	mkdir -p "$(dirname "$FOLDER")"
	# Move at the end, so that an existing folder is complete.
	mv "$work" "$FOLDER"
}

files=("$@")
((${#files[@]})) || files=(datapath/kernel/*.[ch] datapath/tcp/*.h tests/guest/probe/*.c)
[[ -e ${files[0]} ]] || fail "${files[0]}: there is no such file"
[[ -e $FOLDER ]] || fetch
# A module outside the kernel's tree supports several kernels, so it compares LINUX_VERSION_CODE,
# which checkpatch takes for a constant.
perl "$FOLDER/checkpatch.pl" --no-tree --strict --terse --no-summary \
	--ignore LINUX_VERSION_CODE,CONSTANT_COMPARISON --file "${files[@]}"
