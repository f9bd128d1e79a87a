#!/usr/bin/env bash
# Builds the remuda Python package into the virtual environment target/venv, and tests or measures
# it. Installs missing tools first, and prints that; further runs are quick.
#
#   tools/python.sh install         install tools and libraries only
#   tools/python.sh build           build the package too, optimised, for the Python of target/venv
#   tools/python.sh test [ARGS]     build, lint, check types and stubs, run pytest with ARGS
#   tools/python.sh bench [ARGS]    build, print environment steps per CPU-second
#   tools/python.sh wheel           make target/wheel/*.whl, try it in an empty environment
#
# REMUDA_PROFILE names the profile of cargo for the build; the default is release. The profile
# checked uses what `make test-build` has built.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=$PWD/target/venv
readonly STAMP=$VENV/.installed
readonly LOG=$PWD/target/python.log
readonly PIP=pip==26.3
readonly PROFILE=${REMUDA_PROFILE:-release}
readonly SOURCES=python
# All Python code of the project.
readonly ALL=("$SOURCES" bench tools emulation/report/tests ccp-agent/client/examples)

say() { echo "python: $*"; }

# Runs a command; prints its output only if the command fails.
quietly() {
	if ! "$@" >"$LOG" 2>&1; then
		cat "$LOG" >&2
		say "failed: $*" >&2
		exit 1
	fi
}

# Installs the tools and libraries that pyproject.toml pins; again only when the file changes.
install() {
	local wanted
	wanted=$(sha256sum pyproject.toml "$0" | sha256sum)
	if [[ -f $STAMP && $(<"$STAMP") == "$wanted" ]]; then
		return
	fi
	say "installing the packages of pyproject.toml into target/venv (pip)"
	mkdir -p target
	if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		say "needs Python 3.11 or later" >&2
		say "fix: install python3 and python3-venv" >&2
		exit 1
	fi
	if [[ ! -x $VENV/bin/python ]] && ! python3 -m venv "$VENV" >"$LOG" 2>&1; then
		cat "$LOG" >&2
		say "fix: apt-get install python3-venv" >&2
		exit 1
	fi
	quietly "$VENV/bin/python" -m pip install --quiet "$PIP"
	quietly "$VENV/bin/python" -m pip install --quiet --group dev --group networks
	# An extra of the package, some 250 MB, for `remuda matrix --engine ray` and its tests.
	if ! "$VENV/bin/python" -m pip install --quiet --group ray >"$LOG" 2>&1; then
		cat "$LOG" >&2
		say "SKIPPED: Ray, and so the tests of \`remuda matrix --engine ray\`" >&2
		say "to try again: rm $STAMP" >&2
	fi
	echo "$wanted" >"$STAMP"
}

# Links the package in the sources, with its library, into the virtual environment.
build() {
	install
	say "building the package (cargo)"
	if [[ $PROFILE == checked ]]; then
		# All packages, as in the Makefile: for some of them alone, cargo would compile
		# everything anew.
		quietly cargo test --profile checked --workspace --no-run
	else
		quietly cargo build --profile "$PROFILE" --package remuda-native
	fi
	ln -sfn "$PWD/target/$PROFILE/deps/libremuda_native.so" "$SOURCES/remuda/_native.abi3.so"
	echo "$PWD/$SOURCES" >"$(echo "$VENV"/lib/python3.*/site-packages)/remuda.pth"
}

lint() {
	say "ruff, mypy, stubtest"
	"$VENV/bin/ruff" check --quiet "${ALL[@]}"
	"$VENV/bin/ruff" format --check --quiet "${ALL[@]}"
	quietly "$VENV/bin/mypy" --cache-dir target/mypy
	MYPYPATH=$SOURCES quietly "$VENV/bin/stubtest" remuda._native
}

# A wheel needs neither Rust nor a compiler where it is installed.
wheel() {
	install
	say "building the wheel (maturin)"
	rm -rf target/wheel
	quietly "$VENV/bin/python" -m pip wheel --quiet --no-deps --wheel-dir target/wheel .
	empty=$(mktemp -d) # not local: the trap runs after this function
	trap 'rm -rf "$empty"' EXIT
	python3 -m venv "$empty/venv"
	say "trying it in an empty environment (pip)"
	quietly "$empty/venv/bin/python" -m pip install --quiet target/wheel/*.whl
	(cd "$empty" && venv/bin/python -c '
import remuda

env = remuda.CongestionEnv(bandwidth_mbit_per_sec=12, rtt_ms=40)
env.reset(seed=1)
print("python: a step of", remuda.__file__, "rewards", env.step(env.action_space.sample())[1])
')
	ls target/wheel/*.whl
}

case ${1:-} in
install)
	install
	;;
build)
	build
	say "done: run target/venv/bin/python, or source target/venv/bin/activate"
	;;
test)
	build
	lint
	shift
	say "pytest"
	"$VENV/bin/pytest" --quiet "$@"
	;;
wheel)
	wheel
	;;
bench)
	build
	shift
	"$VENV/bin/python" $SOURCES/bench/env_steps.py "$@"
	;;
*)
	sed -n 's/^# \{0,1\}//; 2,11p' "$0" | grep -v '^!'
	exit 2
	;;
esac
