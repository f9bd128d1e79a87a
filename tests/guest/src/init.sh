#!/bin/busybox sh
# The first process of a guest: makes /command's world, with the modules that /load names, runs it,
# says how it ended. What the command prints goes to the second serial port, all else to the first.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
echo 'guest: begins'
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
# What a kernel has not has no folder to be mounted on.
[ -d /sys/kernel/debug ] && mount -t debugfs none /sys/kernel/debug
[ -d /sys/fs/bpf ] && mount -t bpf none /sys/fs/bpf
[ -d /sys/fs/cgroup ] && mount -t cgroup2 none /sys/fs/cgroup
for module in $(cat /load); do
	if ! insmod "/modules/$module.ko"; then
		echo "guest: cannot load $module"
		poweroff -f
	fi
done
ip link set lo up
sh /command >/tmp/output
status=$?
stty -F /dev/ttyS1 raw -echo
cat /tmp/output >/dev/ttyS1
# What the command said last need not be a whole line.
printf '\nguest: ended with status %s\n' "$status"
poweroff -f
