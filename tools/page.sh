#!/usr/bin/env bash
# Tests the report of a matrix in headless Chromium, and saves screenshots in target/page. Installs
# missing packages first, and prints their names; further runs are quick.
#
#   tools/page.sh install   install the browser and its driver only
#   tools/page.sh [ARGS]    run pytest with ARGS on emulation/report/tests
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=$PWD/target/venv
readonly STAMP=$VENV/.page

say() { echo "page: $*"; }

bash tools/setup.sh chromium fonts-dejavu-core
bash tools/python.sh install
wanted=$(sha256sum pyproject.toml "$0" | sha256sum)
if [[ ! -f $STAMP || $(<"$STAMP") != "$wanted" ]]; then
	say "installing the browser driver into target/venv (pip)"
	"$VENV/bin/python" -m pip install --quiet --group page
	echo "$wanted" >"$STAMP"
fi
[[ ${1-} != install ]] || exit 0
bash tools/python.sh build
say "pytest"
"$VENV/bin/pytest" --quiet emulation/report/tests "$@"
