#!/bin/bash
# Runs the host's commands in a guest with systemd, one after the other. They come through the
# virtio port: a line with the limit in seconds and the lengths of script and input; the script; the
# input. The answer is a line with the status and the lengths of output and errors, then these two.
set -u
folder=$(mktemp -d /run/guest-commands.XXXXXX)
cd "$folder" || exit
exec 3<>/dev/vport0p1

while read -r limit script_bytes input_bytes <&3; do
	head -c "$script_bytes" <&3 >script
	head -c "$input_bytes" <&3 >input
	(cd / && exec timeout -k 5 "$limit" bash "$folder/script") \
		<input >output 2>errors 3>&-
	status=$?
	echo "$status $(stat -c %s output) $(stat -c %s errors)" >&3
	cat output errors >&3
done
