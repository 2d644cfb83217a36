#!/bin/sh
# One host from its power-on to its power-off. SIGTERM is a power cut: everything in it ends at once, as with kill -9.
# A reboot begins it anew. It leaves no cgroup behind.
#   box.sh DIRECTORY NAME LOWER CGROUP        see enter.sh; CGROUP names the host's own, below that of the machine
set -eu
directory=$1 name=$2 lower=$3 cgroup=$4
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
HIERARCHIES=''
places=''
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    places=/sys/fs/cgroup/$cgroup
else # version 1: a systemd would take those that it is not given from the machine
    for hierarchy in /sys/fs/cgroup/*; do
        if [ -e "$hierarchy/cgroup.procs" ] && [ ! -L "$hierarchy" ]; then
            places="$places $hierarchy/$cgroup"
            HIERARCHIES="$HIERARCHIES ${hierarchy##*/}"
        fi
    done
fi
export HIERARCHIES
[ -n "$places" ] || { echo "no cgroups in /sys/fs/cgroup" >&2; exit 1; }

clear_cgroups() {
    for place in $places; do
        tries=0
        while [ -d "$place" ]; do # processes that were killed leave it one by one
            find "$place" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.02
            tries=$((tries + 1))
            [ "$tries" -lt 1000 ] || break
        done
    done
}

inside=''
trap 'trap "" TERM; [ -z "$inside" ] || kill -9 "$inside"; wait; clear_cgroups; exit 143' TERM
trap '' INT HUP
while :; do
    clear_cgroups
    # shellcheck disable=SC2016 # the inner shell expands it
    sh -euc '
        for place in $1; do
            mkdir "$place"
            for each in cpus mems; do # nobody may join before these are set
                [ ! -e "$place/cpuset.$each" ] || [ -e "$place/cgroup.controllers" ] ||
                    cat "${place%/*}/cpuset.$each" > "$place/cpuset.$each"
            done
            echo $$ > "$place/cgroup.procs"
        done
        shift
        exec unshare --mount --uts --ipc --pid --cgroup --fork --kill-child "$@"
    ' sh "$places" sh "$here/enter.sh" "$directory" "$name" "$lower" </dev/null &
    inside=$!
    code=0
    wait "$inside" || code=$?
    inside=''
    [ "$code" -eq 129 ] || break # reboot(2) in a namespace of processes ends its first one with SIGHUP
done
clear_cgroups
exit "$code"
