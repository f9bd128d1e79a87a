#!/bin/sh
# Fuzzes the headers with libFuzzer, ASAN and UBSAN, a target after the other.
#
#     datapath/vm/fuzz/run.sh SECONDS [message|execution]...
#
# SECONDS is for each target. What is found, and the corpus, lie in target/vm-fuzz.
set -eu

seconds=${1:?"how many seconds for each target? usage: run.sh SECONDS [message|execution]..."}
shift
here=$(cd "$(dirname "$0")" && pwd)
out=${CARGO_TARGET_DIR:-$here/../../../target}/vm-fuzz
[ $# -gt 0 ] || set -- message execution

if ! command -v clang >/dev/null; then
	echo "clang is not here; fix: apt-get install clang libclang-rt-14-dev" >&2
	exit 1
fi
mkdir -p "$out"
for target in "$@"; do
	mkdir -p "$out/$target"
	clang -g -O2 -std=gnu11 -Wall -Wextra -Werror -fno-omit-frame-pointer \
		-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-I"$here/../include" -o "$out/$target.bin" "$here/$target.c" || {
		echo "no sanitizers? fix: apt-get install clang libclang-rt-14-dev" >&2
		exit 1
	}
done
for target in "$@"; do
	echo "$target: $seconds s"
	"$out/$target.bin" -max_total_time="$seconds" -max_len=2048 -verbosity=0 \
		-print_final_stats=1 -artifact_prefix="$out/$target-" "$out/$target"
done
echo "no finding"
