#!/usr/bin/env bash
# Trains models from scratch: simulates the environments and fits the trees or networks, with the
# Python of target/venv (tools/python.sh). The same sources give the same model.
#
#   tools/train.sh full     9,600 environments into out/antelope; continues a collection that was
#                           stopped
#   tools/train.sh lingbo         LingBo's network into out/lingbo
#   tools/train.sh lingbo-smoke   a short training of it, twice: both must have the same bytes
#   tools/train.sh learned        the network of the arm learned into out/learned
#   tools/train.sh learned-smoke  a short training of it, twice: both must have the same bytes
#   tools/train.sh tcp_rl         the networks of the policy tcp_rl into out/tcp_rl
#   tools/train.sh tcp_rl-smoke   a short training of them, twice: both must have the same bytes
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
# Of the arms, it misses least on the development sets (docs/ranking.md).
readonly HOME_ARM=learned

say() { echo "train: $*"; }

without_commit() { sed 's/"commit":"[^"]*"//' "$1"; }

full() {
	local model=out/antelope/model.json
	"$REMUDA" train antelope --data out/antelope/samples --model "$model" --python "$PYTHON" \
		-- --home "$HOME_ARM"
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

# Trains the network of an arm or a policy. Arguments: its name, the module that trains it, and the
# folder of the shipped weights.
network() {
	local arm=$1 module=$2 models=$3
	local weights=out/$arm/$arm.safetensors
	"$REMUDA" train "$arm" --out "$weights" --python "$PYTHON"
	if cmp --silent "$weights" "$models/$arm.safetensors"; then
		say "$weights are the shipped weights"
	else
		say "$weights are not the shipped weights; to ship them:"
		say "cp out/$arm/$arm*.{safetensors,json} $models/"
		say "$PYTHON -m $module --out $weights --expected $models/$arm.expected"
	fi
}

network_smoke() {
	local arm=$1 run
	folder=$(mktemp -d) # not local: the trap removes it at the end
	trap 'rm -rf "$folder"' EXIT
	for run in 1 2; do
		"$REMUDA" train "$arm" --smoke --out "$folder/$run/$arm.safetensors" \
			--python "$PYTHON"
	done
	cmp "$folder/1/$arm.safetensors" "$folder/2/$arm.safetensors"
	say "the same network twice"
}

case ${1:-} in
full | smoke | lingbo | lingbo-smoke | learned | learned-smoke | tcp_rl | tcp_rl-smoke)
	bash tools/python.sh build
	case $1 in
	lingbo) network lingbo remuda.training.lingbo algorithms/models ;;
	learned) network learned remuda.training.ppo algorithms/models ;;
	tcp_rl) network tcp_rl remuda.training.tcp_rl selector/models ;;
	*-smoke) network_smoke "${1%-smoke}" ;;
	*) "$1" ;;
	esac
	;;
*)
	sed -n 's/^# \{0,1\}//; 2,16p' "$0" | grep -v '^!'
	exit 2
	;;
esac
