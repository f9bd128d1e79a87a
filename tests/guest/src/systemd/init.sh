#!/bin/busybox sh
# The first process of a guest with systemd: mounts the disk, puts a file system in memory on top,
# so that the disk never changes, adds /files, and hands over to systemd.
/bin/busybox --install -s /bin
export PATH=/bin

or_end() {
	"$@" && return
	echo "guest: this command failed: $*"
	poweroff -f
}

mount -t devtmpfs none /dev
for module in virtio_blk squashfs overlay; do
	or_end insmod "/modules/$module.ko"
done
mkdir /disk /memory /new
or_end mount -t squashfs -o ro /dev/vda /disk
or_end mount -t tmpfs none /memory
mkdir /memory/changes /memory/work
or_end mount -t overlay -o lowerdir=/disk,upperdir=/memory/changes,workdir=/memory/work none /new
or_end cp -r /files/. /new
units=/new/etc/systemd/system
or_end chmod 644 "$units/guest-commands.service"
mkdir -p "$units/multi-user.target.wants"
ln -s ../guest-commands.service "$units/multi-user.target.wants/"
# Without an identity, systemd takes this for the first boot and enables every unit.
echo 00000000000000000000000000000001 >/new/etc/machine-id
echo guest >/new/etc/hostname
mount --move /dev /new/dev
exec switch_root /new /usr/lib/systemd/systemd
