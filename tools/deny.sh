#!/usr/bin/env bash
# Checks the licenses and sources of all dependencies, and known vulnerabilities (deny.toml). The
# first run compiles cargo-deny into target/tools, which takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VERSION=0.20.2
readonly TOOLS=$PWD/target/tools
readonly DENY=$TOOLS/bin/cargo-deny

say() { echo "deny: $*"; }

if [[ ! -x $DENY || $("$DENY" --version) != "cargo-deny $VERSION" ]]; then
	say "compiling cargo-deny $VERSION into target/tools"
	CARGO_TARGET_DIR=$TOOLS/build cargo install --locked --quiet --root "$TOOLS" \
		"cargo-deny@$VERSION"
	rm -rf "$TOOLS/build"
fi
"$DENY" check bans licenses sources
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if "$DENY" check advisories >"$log" 2>&1; then
	say "no known vulnerability"
elif grep -q 'unable to access\|failed to fetch' "$log"; then
	say "SKIPPED: known vulnerabilities: their database cannot be reached"
else
	cat "$log" >&2
	exit 1
fi
