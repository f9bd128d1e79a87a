#!/usr/bin/env bash
# Makes target/guest/newest/headers, where tools/module.sh compiles a module for the newest kernel
# that Debian has for a stable release. The kernel is not booted. The packages come from apt's
# mirror, but from another release, with package lists of their own, so this host does not change.
#
# The tools in these headers need the C library and the compiler of their release. The script
# unpacks that library beside the tools, and uses the compiler of this host.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly RELEASE=trixie
readonly SUITES=("$RELEASE" "$RELEASE-backports")
readonly PACKAGE=linux-headers-cloud-amd64
readonly KEYS=/usr/share/keyrings/debian-archive-keyring.gpg
# Programs in linux-kbuild that building a module runs: the name that the build uses, and the
# program.
readonly TOOLS=(
	scripts/basic/fixdep:scripts/basic/fixdep
	scripts/mod/modpost:scripts/mod/modpost.real-lsb-64
	tools/objtool/objtool:tools/objtool/objtool.real-x86
)
readonly LIBRARIES=(libc6 libelf1t64 libzstd1 zlib1g)
readonly FOLDER=$PWD/target/guest/newest

say() { echo "newest headers: $*"; }
fail() {
	printf 'newest headers: %s\n' "$@" >&2
	exit 1
}

# Sets up apt for the other release.
know_release() {
	local mirror
	# shellcheck disable=SC2016 # apt's own.
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' \
		'Identifier: Packages' | head -1)
	[[ -n $mirror ]] || fail "apt does not know a Debian mirror" "fix: run apt-get update"
	mkdir -p "$work"/{lists,cache/archives}/partial
	printf "deb [signed-by=$KEYS] $mirror %s main\n" "${SUITES[@]}" >"$work/sources"
	cat >"$work/apt.conf" <<-EOF
		Dir::Etc::SourceList "$work/sources";
		Dir::Etc::SourceParts "/dev/null";
		Dir::State::Lists "$work/lists";
		Dir::State::Status "/dev/null";
		Dir::Cache "$work/cache";
		APT::Sandbox::User "root";
		APT::Default-Release "$RELEASE-backports";
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
	EOF
	export APT_CONFIG=$work/apt.conf
	apt-get update -qq || fail "fix: check that $mirror has ${SUITES[*]}"
}

# Prints the dependencies of a package that match a pattern.
depends() { apt-cache depends "$1" | sed -n "s/^ *Depends: \($2\)\$/\1/p"; }

# Makes the tools use the C library of their release.
wrap_tools() {
	local kbuild=$1 libraries=$2 tool known program
	for tool in "${TOOLS[@]}"; do
		known=$kbuild/${tool%:*}
		program=$kbuild/${tool#*:}
		mv "$program" "$program.elf"
		cat >"$program" <<-EOF
			#!/bin/sh
			exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" \\
				"$program.elf" "\$@"
		EOF
		chmod +x "$program"
		[[ $known == "$program" ]] || ln -sf "$(basename "$program")" "$known"
	done
}

make_folder() {
	local release=$1 packages=$FOLDER/packages headers
	rm -rf "$FOLDER"
	mkdir -p "$packages"
	for package in "$work"/*.deb; do
		dpkg-deb -x "$package" "$work/unpacked"
	done
	mv "$work/unpacked/usr/src" "$work/unpacked/usr/lib" "$packages/"
	wrap_tools "$(echo "$packages"/lib/linux-kbuild-*)" "$packages/lib/x86_64-linux-gnu"
	headers=$packages/src/linux-headers-$release
	sed -i "s|/usr/src/|$packages/src/|" "$headers/Makefile"
	# Use this host's compiler, and drop an option that an older compiler does not know.
	sed -i 's/^CC = .*/CC = gcc/' "$headers/.kernelvariables"
	sed -i '/^CONFIG_CC_HAS_MIN_FUNCTION_ALIGNMENT=/d' "$headers/include/config/auto.conf"
	ln -s "packages/src/linux-headers-$release" "$FOLDER/headers"
}

[[ $(uname -m) == x86_64 ]] || fail "needs an x86-64 machine, this is $(uname -m)"
# FOLDER counts because the paths in it are absolute.
wanted=$({
	echo "$FOLDER"
	cat "$0"
} | sha256sum)
if [[ -f $FOLDER/made-by && $(<"$FOLDER/made-by") == "$wanted" ]]; then
	exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
know_release
package=$(depends "$PACKAGE" 'linux-headers-.*')
[[ -n $package ]] || fail "$RELEASE-backports has no $PACKAGE"
packages=("$package" "$(depends "$package" 'linux-kbuild-.*')"
	"$(depends "$package" 'linux-headers-.*-common')" "${LIBRARIES[@]}")
say "fetching ${packages[*]} (apt)"
(cd "$work" && apt-get download -qq "${packages[@]}") || fail "fix: try again later"
make_folder "${package#linux-headers-}"
# Write this last, so that it marks a complete folder.
echo "$wanted" >"$FOLDER/made-by"
