#!/usr/bin/env bash
# Installs the Debian packages that building and testing need, and prints their names. Quick when
# they are installed. Rust and Python must be there before, from any source.
#
#   tools/setup.sh [PACKAGE...]     install these as well
set -euo pipefail

packages=("$@"
	clang gcc iperf3 libc6-dev libclang-dev libelf-dev make pkg-config shellcheck tmux
	zlib1g-dev)

# Debian's Python comes without the modules that make virtual environments.
python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)

say() { echo "setup: $*"; }

missing=()
for package in "${packages[@]}"; do
	dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
		missing+=("$package")
done

if ((${#missing[@]})); then
	run=()
	if ((EUID != 0)); then
		if ! command -v sudo >/dev/null; then
			say "missing: ${missing[*]}"
			say "fix: as root, apt-get install ${missing[*]}"
			exit 1
		fi
		run=(sudo)
	fi
	say "installing ${missing[*]} (apt)"
	"${run[@]}" apt-get update -qq -o DPkg::Lock::Timeout=300
	"${run[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq -o DPkg::Lock::Timeout=300 "${missing[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null; then
	say "cargo is missing"
	say "fix: install Rust 1.88 or later (rustup, or Debian's rustc and cargo if recent enough)"
	exit 1
fi
for component in fmt clippy; do
	if ! cargo "$component" --version >/dev/null 2>&1; then
		say "installing cargo $component (rustup)"
		rustup component add "$([[ $component == fmt ]] && echo rustfmt || echo clippy)"
	fi
done
