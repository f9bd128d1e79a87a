#!/usr/bin/env bash
# Trains Antelope's model from scratch: simulates the environments and fits the trees, with the
# Python of target/venv (tools/python.sh). The same sources give the same model.
#
#   tools/train.sh full     9,600 environments into out/antelope; continues a collection that was
#                           stopped
#   tools/train.sh smoke    40 environments, twice: both models must have the same bytes. Then the
#                           shipped model learns from some simulated flows
#
# REMUDA_PROFILE names the profile of cargo whose programs run; the default is release.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly BUILT=target/${REMUDA_PROFILE:-release}
readonly REMUDA=$BUILT/remuda
readonly PYTHON=target/venv/bin/python
readonly SHIPPED=selector/models/antelope.json

say() { echo "train: $*"; }

without_commit() { sed 's/"commit":"[^"]*"//' "$1"; }

full() {
	local model=out/antelope/model.json
	"$REMUDA" train antelope --data out/antelope/samples --model "$model" --python "$PYTHON"
	# The models may differ only in the commit on their card.
	if cmp --silent <(without_commit "$model") <(without_commit "$SHIPPED"); then
		say "$model is the shipped model, byte for byte except for the commit"
	else
		say "$model is not the shipped model; to ship it: cp $model $SHIPPED"
	fi
}

smoke() {
	local threads
	folder=$(mktemp -d) # not local: the trap removes it at the end
	trap 'rm -rf "$folder"' EXIT
	for threads in 1 2; do
		"$REMUDA" train antelope --environments 40 --threads "$threads" \
			--data "$folder/samples-$threads" --model "$folder/$threads/model.json" \
			--python "$PYTHON" -- --trees 10 --depth 4 --processes "$threads"
	done
	cmp "$folder/1/model.json" "$folder/2/model.json"
	say "the same model twice"
	"$BUILT/remuda-antelope-table" \
		--online --smoke --fresh --worlds CoDel --python "$PYTHON" | grep -F "| CoDel"
}

case ${1:-} in
full | smoke)
	bash tools/python.sh build
	"$1"
	;;
*)
	sed -n 's/^# \{0,1\}//; 2,10p' "$0" | grep -v '^!'
	exit 2
	;;
esac
