#!/usr/bin/env bash
# Trains Antelope's model from nothing: simulates the environments, fits the trees. The Python it
# needs is in target/venv (tools/python.sh). The same tree gives the same model.
#
#   tools/train.sh full     9,600 environments into out/antelope; a collection that was stopped
#                           goes on
#   tools/train.sh smoke    40 environments, twice: the two models must be the same bytes; and the
#                           shipped model learns from some simulated flows
set -euo pipefail
cd "$(dirname "$0")/.."

readonly REMUDA=target/release/remuda
readonly PYTHON=target/venv/bin/python
readonly SHIPPED=selector/models/antelope.json

say() { echo "train: $*"; }

without_commit() { sed 's/"commit":"[^"]*"//' "$1"; }

full() {
	local model=out/antelope/model.json
	"$REMUDA" train antelope --data out/antelope/samples --model "$model" --python "$PYTHON"
	# Of the commit on the card alone they may differ.
	if cmp --silent <(without_commit "$model") <(without_commit "$SHIPPED"); then
		say "$model is the shipped model, byte for byte but for the commit"
	else
		say "$model is not the shipped model; to ship it: cp $model $SHIPPED"
	fi
}

smoke() {
	local threads
	folder=$(mktemp -d) # not local, as it is removed at the end of all
	trap 'rm -rf "$folder"' EXIT
	for threads in 1 2; do
		"$REMUDA" train antelope --environments 40 --threads "$threads" \
			--data "$folder/samples-$threads" --model "$folder/$threads/model.json" \
			--python "$PYTHON" -- --trees 10 --depth 4 --processes "$threads"
	done
	cmp "$folder/1/model.json" "$folder/2/model.json"
	say "the same model twice"
	cargo run --release --quiet -p remuda-antelope-table -- --online --smoke --fresh \
		--worlds CoDel --python "$PYTHON" | grep -F "| CoDel"
}

case ${1:-} in
full | smoke)
	bash tools/python.sh build
	"$1"
	;;
*)
	sed -n 's/^# \{0,1\}//; 2,9p' "$0" | grep -v '^!'
	exit 2
	;;
esac
