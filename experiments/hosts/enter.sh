#!/bin/sh
# The inside of a host: run by box.sh in new namespaces for mounts, name, processes, IPC and cgroups, in a network
# namespace that was made before. Mounts the host's tree and becomes its systemd.
#   enter.sh DIRECTORY NAME LOWER        DIRECTORY holds upper/, work/, root/ and console
set -eu
directory=$1 name=$2 lower=$3
root=$directory/root
umask 022
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$directory/upper,workdir=$directory/work" "$root"
hostname "$name"

mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o nosuid,nodev,noexec sysfs "$root/sys"

# cgroups: what is below the host's own, as the machine has mounted them
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$root/sys/fs/cgroup"
else
    mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
    for hierarchy in $HIERARCHIES; do
        mkdir "$root/sys/fs/cgroup/$hierarchy"
        case $hierarchy in
            unified) mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 "$root/sys/fs/cgroup/$hierarchy" ;;
            systemd) mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/$hierarchy" ;;
            *) mount -t cgroup -o "$hierarchy" cgroup "$root/sys/fs/cgroup/$hierarchy" ;;
        esac
    done
    for hierarchy in /sys/fs/cgroup/*; do
        [ ! -L "$hierarchy" ] || cp -P "$hierarchy" "$root/sys/fs/cgroup/"
    done
fi

# devices: those that every program expects
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
while read -r device major minor; do
    mknod -m 666 "$root/dev/$device" c "$major" "$minor"
done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
END
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0 1 2; do
    ln -s "/proc/self/fd/$number" "$root/dev/$(echo stdin stdout stderr | cut -d ' ' -f $((number + 1)))"
done

# settings of the kernel are the machine's, not the host's: nobody in it writes them. Of those that a deployment sets
# the host has copies, which read back what was written and do nothing; its network's settings are its own.
mkdir "$root/run/kernel"
own() {
    [ -e "$root$1" ] || return 0
    copy=$root/run/kernel/$(echo "$1" | tr / _)
    cat "$root$1" > "$copy"
    mount --bind "$copy" "$root$1"
}
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,ro,bind "$root/proc/sys"
mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
mount -o remount,rw,bind "$root/proc/sys/net"
if [ -e "$root/proc/sysrq-trigger" ]; then
    mount --bind "$root/proc/sysrq-trigger" "$root/proc/sysrq-trigger"
    mount -o remount,ro,bind "$root/proc/sysrq-trigger"
fi
mount -o remount,ro,bind "$root/sys"
own /proc/sys/vm/overcommit_memory
own /proc/sys/vm/swappiness
own /sys/kernel/mm/transparent_hugepage/enabled
own /sys/kernel/mm/transparent_hugepage/defrag
# each start is a boot
cat /proc/sys/kernel/random/uuid > "$root/run/kernel/boot_id"
mount --bind "$root/run/kernel/boot_id" "$root/proc/sys/kernel/random/boot_id"

touch "$root/dev/console"
mount --bind "$directory/console" "$root/dev/console"
cd "$root"
pivot_root . mnt
# what systemd mounts for a service (credentials) it mounts in a copy of this namespace, and expects to see it here.
# No host sets the machine's clock or loads modules into its kernel. systemd 256 and newer want a word of the kernel's
# command line, which is init's own here, before they use cgroups of version 1
exec chroot . /bin/sh -c '
    umount -l /mnt
    mount --make-rshared /
    exec setpriv --bounding-set=-sys_time,-sys_module,-sys_rawio env -i container=unshare \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /sbin/init SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1
' </dev/null >>dev/console 2>&1
