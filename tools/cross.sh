#!/usr/bin/env bash
# Builds the remuda command for arm64 on an amd64 host. Then runs a simulation by this command and
# by the host's own one, and compares the results byte for byte. QEMU emulates the arm64 program,
# but no arm64 machine, so no arm64 kernel takes part.
#
# The command is target/aarch64-unknown-linux-gnu/release/remuda; the host's own one must be built.
# Installs Debian's cross compiler, mmdebstrap, QEMU and Rust's library for arm64 first if they are
# missing, and prints that. The libraries of arm64 are only unpacked, into target/arm64/root.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

readonly TARGET=aarch64-unknown-linux-gnu OWN=target/release/remuda
readonly FOLDER=$PWD/target/arm64
readonly BUILT=target/$TARGET/release/remuda
# The drivers to compare: a policy with a model and a learned arm compute with floating point.
readonly SCENARIO=emulation/scenarios/examples/random-loss.toml
readonly VARY='flows.*.driver=cubic,bbr3,learned,antelope'

say() { echo "cross: $*"; }
fail() {
	printf 'cross: %s\n' "$@" >&2
	exit 1
}

# The mirror of Debian that this host uses; nothing if it uses none.
mirror() {
	apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Origin: Debian' \
		'Label: Debian' | sort -u | head -n 1
}

# Unpacks the arm64 libraries that the command is linked with, from this host's release of Debian.
unpack() {
	local from release root=$FOLDER/root
	from=$(mirror)
	release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	say "unpacking libelf and zlib of arm64, of Debian $release (mmdebstrap)"
	rm -rf "$FOLDER"
	mkdir -p "$FOLDER/include" "$FOLDER/lib"
	mmdebstrap --quiet --variant=extract --architectures=arm64 \
		--include=libelf-dev,zlib1g-dev,libgcc-s1 "$release" "$FOLDER/unpacked" \
		${from:+"$from"} 2>"$FOLDER/log" ||
		fail "mmdebstrap failed: $(tail -n 5 "$FOLDER/log")"
	for header in libelf.h gelf.h nlist.h zlib.h zconf.h; do
		cp "$(find "$FOLDER/unpacked/usr/include" -name "$header" | head -n 1)" \
			"$FOLDER/include/"
	done
	# Alone, so that the linker takes the cross compiler's C library.
	for library in libelf.so libz.so; do
		cp -L "$(find "$FOLDER/unpacked" -name "$library.1" | head -n 1)" \
			"$FOLDER/lib/$library.1"
		ln -s "$library.1" "$FOLDER/lib/$library"
	done
	# Move at the end, so that an existing folder is complete.
	mv "$FOLDER/unpacked" "$root"
}

# The arm64 command, under QEMU.
emulated() {
	qemu-aarch64-static -L "$FOLDER/root" "$BUILT" "$@"
}

# Compares two results of the simulator.
compare() {
	local arguments=(sim "$SCENARIO" --vary "$VARY" --json)
	"$OWN" "${arguments[@]}" >"$FOLDER/amd64.json"
	emulated "${arguments[@]}" >"$FOLDER/arm64.json"
	cmp "$FOLDER/amd64.json" "$FOLDER/arm64.json" ||
		fail "the simulator's results differ between amd64 and arm64"
	say "simulated $SCENARIO with $VARY:" \
		"the same $(wc -c <"$FOLDER/arm64.json") bytes as on amd64"
}

if [[ $(uname -m) != x86_64 ]]; then
	fail "needs an x86-64 host, this is $(uname -m)" "fix: make deb, on the arm64 host itself"
fi
if [[ ! -x $OWN ]]; then
	fail "$OWN: there is no such command" "fix: make build"
fi
bash tools/setup.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross mmdebstrap qemu-user-static
if [[ ! -d $(rustc --print sysroot)/lib/rustlib/$TARGET ]]; then
	command -v rustup >/dev/null ||
		fail "Rust has no library for $TARGET" "fix: install it, or Rust by rustup"
	say "installing Rust's library for $TARGET (rustup)"
	rustup target add "$TARGET"
fi
[[ -d $FOLDER/root ]] || unpack

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CFLAGS_aarch64_unknown_linux_gnu="-idirafter $FOLDER/include"
export LIBBPF_SYS_LIBRARY_PATH_aarch64_unknown_linux_gnu=$FOLDER/lib
"${CARGO:-cargo}" build --release -p remuda --target "$TARGET"

say "under QEMU: $(emulated --version)"
# Under QEMU there is no BPF, and setting bbr fails although the kernel lists bbr: the command must
# cope with both.
emulated programs >"$FOLDER/programs" || fail "remuda programs failed"
compare
