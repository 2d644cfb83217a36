#!/bin/sh
# Where interrupts go: `interrupts.sh away-from 2,3` takes them off these CPUs, `interrupts.sh everywhere` gives them back.
# The kernel keeps some where they are (managed queues of disks and network cards, timers): they are counted.
set -eu
all=$(cat /sys/devices/system/cpu/online)
each() {
    echo "$1" | tr , '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done
}
case "${1:-}" in
    away-from) to=$(each "$all" | grep -vxF "$(each "$2")" | paste -sd , -) || to= ;;
    everywhere) to=$all ;;
    *) echo "usage: interrupts.sh away-from CPUS|everywhere" >&2; exit 2 ;;
esac
[ -n "$to" ] || { echo "no CPU is left for interrupts: CPUs $all, without $2" >&2; exit 78; }
moved=0 kept=0
for interrupt in /proc/irq/[0-9]*/smp_affinity_list; do
    if echo "$to" 2>/dev/null >"$interrupt"; then moved=$((moved + 1)); else kept=$((kept + 1)); fi
done
echo "$moved interrupts go to CPUs $to, the kernel keeps $kept where they are"
