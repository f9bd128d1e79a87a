#!/usr/bin/env bash
# Builds target/guest/debug: a kernel for tests/guest from Debian's source of Linux 6.1, laid out as
# tools/guest.sh --headers does it, with the fault detectors of tests/guest/debug.config. The first
# build takes some ten minutes on two processors and 3 GB of disk; further runs are quick. Installs
# missing Debian packages first, and prints their names.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly PACKAGE=linux-source-6.1
readonly FRAGMENT=$PWD/tests/guest/debug.config
readonly FOLDER=$PWD/target/guest/debug
readonly BUILD=$PWD/target/guest/debug-build
readonly TREE=$BUILD/$PACKAGE

say() { echo "debug kernel: $*"; }
fail() {
	printf 'debug kernel: %s\n' "$@" >&2
	exit 1
}

# Fetches the source into BUILD, or continues with the source of an interrupted build.
fetch() {
	local wanted=$1 version=$2
	if [[ -f $BUILD/for && $(<"$BUILD/for") == "$wanted" ]]; then
		return
	fi
	rm -rf "$BUILD"
	mkdir -p "$BUILD"
	say "fetching $PACKAGE=$version, 140 MB (apt)"
	(cd "$BUILD" && apt-get download -qq -o APT::Sandbox::User=root \
		"$PACKAGE=$version" busybox-static) || fail "fix: apt-get update, then try again"
	for package in "$BUILD"/*.deb; do
		dpkg-deb -x "$package" "$BUILD/unpacked"
		rm "$package"
	done
	tar -xJf "$BUILD/unpacked/usr/src/$PACKAGE.tar.xz" -C "$BUILD"
	rm "$BUILD/unpacked/usr/src/$PACKAGE.tar.xz"
	echo "$wanted" >"$BUILD/for"
}

# Configures the kernel, and fails if an option differs from the fragment.
configure() {
	local line option has missing=()
	(cd "$TREE" &&
		make -s tinyconfig &&
		scripts/kconfig/merge_config.sh -m .config "$FRAGMENT" &&
		make -s olddefconfig) >"$BUILD/said" 2>&1 || fail "configuring: $(<"$BUILD/said")"
	while read -r line; do
		[[ $line == CONFIG_* ]] || continue
		option=${line%%=*}
		has=$(grep "^$option=" "$TREE/.config" || echo "$option=n")
		[[ $has == "$line" ]] || missing+=("$line: it is $has")
	done <"$FRAGMENT"
	if ((${#missing[@]})); then
		fail "$FRAGMENT has options that this kernel does not accept:" "${missing[@]}" \
			"fix: add the options that these depend on (see Kconfig), or drop them"
	fi
}

# Copies the files that building modules needs, as scripts/package/builddeb does for Debian's
# headers.
put_headers() {
	local into=$1 list
	list=$BUILD/headers
	(
		cd "$TREE"
		find . -maxdepth 1 -name Makefile -o -maxdepth 1 -name Kbuild
		find arch/x86 -maxdepth 1 -name 'Makefile*'
		find arch/x86/include include scripts ! -name '*.o' ! -name '*.cmd' ! -type d
		find tools/objtool -maxdepth 1 -name objtool
		printf '%s\n' .config Module.symvers
	) >"$list"
	mkdir -p "$into"
	tar -c -C "$TREE" -T "$list" | tar -x -C "$into"
}

keep() {
	local module
	rm -rf "$FOLDER"
	mkdir -p "$FOLDER/modules"
	cp "$TREE/arch/x86/boot/bzImage" "$FOLDER/vmlinuz"
	cp "$(find "$BUILD/unpacked" -path '*/bin/busybox')" "$FOLDER/busybox"
	while read -r module; do
		cp "$TREE/${module%.*}.ko" "$FOLDER/modules/"
	done <"$TREE/modules.order"
	put_headers "$FOLDER/headers"
}

[[ $(uname -m) == x86_64 ]] || fail "needs an x86-64 machine, this is $(uname -m)"
bash tools/setup.sh bc binutils bison flex libelf-dev qemu-system-x86 xz-utils

version=$(apt-cache show --no-all-versions "$PACKAGE" 2>/dev/null | sed -n 's/^Version: //p')
[[ -n $version ]] || fail "apt does not know $PACKAGE" "fix: apt-get update"
kernel=$({
	echo "$version"
	cat "$FRAGMENT"
} | sha256sum)
wanted=$kernel$(sha256sum <"$0")
if [[ -f $FOLDER/made-by && $(<"$FOLDER/made-by") == "$wanted" ]]; then
	exit
fi
fetch "$kernel" "$version"
configure
say "building the kernel; compiler output is in $BUILD/log"
start=$SECONDS
make -C "$TREE" -j"$(nproc)" bzImage modules >"$BUILD/log" 2>&1 || {
	tail -20 "$BUILD/log" >&2
	fail "the kernel does not build"
}
say "built in $((SECONDS - start)) s"
keep
# Write this last, so that it marks a complete folder.
echo "$wanted" >"$FOLDER/made-by"
rm -rf "$BUILD"
