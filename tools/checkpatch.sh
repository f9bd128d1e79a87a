#!/usr/bin/env bash
# The kernel's own style check, scripts/checkpatch.pl, of C files; an error or a warning fails. No
# package of Debian's has it but the kernel's source, 140 MB, of which it keeps what it needs in
# target/checkpatch; quick the second time.
#
#   tools/checkpatch.sh [FILE...]     without one, all of the kernel's alone
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

# Any will do.
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
		fail "fix: apt-get update, then again"
	dpkg-deb --fsys-tarfile "$work/$PACKAGE"*.deb |
		tar -xO "./usr/src/$PACKAGE.tar.xz" |
		tar -xJ --strip-components=2 -C "$work" "${members[@]}"
	rm "$work"/*.deb
	rm -rf "$FOLDER"
	mkdir -p "$(dirname "$FOLDER")"
	# At once: what is there is whole.
	mv "$work" "$FOLDER"
}

files=("$@")
((${#files[@]})) || files=(datapath/kernel/*.[ch] datapath/tcp/*.h tests/kernel/probe/*.c)
[[ -e ${files[0]} ]] || fail "${files[0]}: there is no such file"
[[ -e $FOLDER ]] || fetch
# A module outside the kernel's tree is for several kernels, and asks which; checkpatch takes that
# for a constant.
perl "$FOLDER/checkpatch.pl" --no-tree --strict --terse --no-summary \
	--ignore LINUX_VERSION_CODE,CONSTANT_COMPARISON --file "${files[@]}"
