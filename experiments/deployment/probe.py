"""Row ``probe``: cost of the deployed probe on a host with no shared pages.

The host has a copy of the Debian of its own, and the shard is on another host: no other part of the product runs on it.
Beside its systemd, journald and sshd it has the load processes (``experiments.emulation.load_processes``), run by a
copy of the interpreter under another name, so that the probe's share of the interpreter is all of it. Before the probe
starts the page cache is emptied, so that pages it reads are charged to its unit. ``charged`` is the unit's memory after
``warm_up`` seconds: the kernel keeps pages read once until other processes need the memory. The windows begin after the
kernel has reclaimed as much as possible from the unit. ``used`` is memory in use: anonymous memory, mapped files, the
ring on tmpfs, and kernel memory of the unit; the rest of ``unit`` are pages of files that were read ahead, or once. The
ring finally holds ten minutes of frames: figures ``in_the_end`` include frames still missing, by the ring's growth.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError
from experiments.deployment import scene
from experiments.hosts import Host
from experiments.hosts.site import ROOT, Site
from experiments.processes.waiting import eventually

MOST_BYTES, MOST_PERCENT = 24e6, 0.5
SHARD, WATCHED = "node1", "node2"
_UNIT = "shardpulse-probe.service"
_LOAD = "/usr/local/bin/shardload"
_SOURCE = ROOT / "experiments" / "emulation" / "load_processes.py"
_RING_SECONDS = 600.0  #: [probe] ring_seconds as shipped
_SETTLE_SECONDS = 60.0
_SHORT_SECONDS = 5.0
#: Have the kernel reclaim memory from the unit, with cgroups of version 1 and 2.
_TAKE_BACK = f"""
group=$(systemctl show -P ControlGroup {_UNIT})
old=/sys/fs/cgroup/memory$group/memory.force_empty new=/sys/fs/cgroup$group/memory.reclaim
if [ -e $old ]; then echo 0 > $old; elif [ -e $new ]; then echo 1G > $new; else echo absent; fi 2>/dev/null || true
"""
#: Lines of a name and a number; memory.stat of cgroups of either version.
_READ = f"""
set -e
echo at_ns $(date +%s%N)
systemctl show --property=MemoryCurrent,CPUUsageNSec,TasksCurrent,NRestarts {_UNIT} | tr = " "
pid=$(systemctl show -P MainPID {_UNIT})
group=$(systemctl show -P ControlGroup {_UNIT})
sed -n 's/^\\(Rss\\|Pss\\|Private_Clean\\|Private_Dirty\\): *\\([0-9]*\\) kB/\\1 \\2/p' /proc/$pid/smaps_rollup
echo age $(ps -o etimes= -p $pid)
echo schedstat $(cut -d' ' -f1 /proc/$pid/schedstat)
echo ring $(du -s -B1 /run/shardpulse-probe | cut -f1)
for place in /sys/fs/cgroup /sys/fs/cgroup/memory; do
    [ ! -e $place$group/memory.stat ] || sed 's/^/stat_/' $place$group/memory.stat
    [ ! -e $place$group/memory.kmem.usage_in_bytes ] || echo kmem $(cat $place$group/memory.kmem.usage_in_bytes)
done
"""


_NEEDED = {
    "at_ns",
    "age",
    "MemoryCurrent",
    "NRestarts",
    "schedstat",
    "ring",
    "Pss",
    "Rss",
    "Private_Dirty",
    "Private_Clean",
}


class NothingSampled(ShardpulseError):
    """The probe does not watch its configured processes."""


def measure(given: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """The row. Raises ShardpulseError."""
    words = f"{_LOAD} /root/load.py {given.processes} /tmp"
    with scene.bare(directory, [SHARD, WATCHED], installed=True, apart=[WATCHED]) as site:
        scene.played(site, "site.yml", inventory=inventory(site, words))
        host = site.hosts[WATCHED]
        with _loaded(host, words) as pids:
            host.ssh(f"systemctl stop {_UNIT}")
            _forget_files()
            host.ssh(f"systemctl start {_UNIT}")
            time.sleep(given.warm_up)
            charged = _window(host, _SHORT_SECONDS)
            _take_back(host)
            windows = [_window(host, given.seconds) for _ in range(given.repeats)]
            seen = _entities(site)
        if seen < len(pids):
            raise NothingSampled(f"{seen} processes of {WATCHED} are current, {len(pids)} were to be watched")
        return {
            "processes": len(pids),
            "watched": seen,
            "charged": charged,
            "windows": windows,
            "unit_max": _limit(host),
        }


def inventory(site: Site, watched: str) -> dict[str, Any]:
    """A shard and a filter on one host, the probe alone on the other; it watches processes with this command."""
    made = site.inventory(
        redis_shard_replicas=0,
        probe_configuration=f"[probe.processes]\ncommands = [{json.dumps(watched)}]\ndaemons = false\n",
    )
    one: dict[str, Any] = {"hosts": {SHARD: {}}}
    other: dict[str, Any] = {"hosts": {WATCHED: {}}}
    nobody: dict[str, Any] = {"hosts": {}}
    groups = {"shards": one, "filters": one, "probes": other, "servers": nobody, "archives": nobody}
    return {"all": made["all"]} | groups


def figures(text: str) -> dict[str, float]:
    """Figures in a reading of the host, by name; lines other than a name and a number are left out."""
    words = (line.split() for line in text.splitlines())
    return {pair[0]: float(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdecimal()}


def window(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """CPU between two readings in per cent of a core, and the bytes of the later one."""
    nanoseconds = after["at_ns"] - before["at_ns"]
    spent = "CPUUsageNSec" if "CPUUsageNSec" in before else "schedstat"  # without CPUAccounting: it has one thread
    stat = {name.removeprefix("stat_"): value for name, value in after.items() if name.startswith("stat_")}
    anonymous, shared = stat.get("anon", stat.get("rss", 0.0)), stat.get("shmem", 0.0)
    mapped, kernel = stat.get("file_mapped", stat.get("mapped_file", 0.0)), after.get("kmem", stat.get("kernel", 0.0))
    used = anonymous + mapped + shared + kernel
    grows = max(0.0, after["ring"] - before["ring"]) * 1e9 / nanoseconds
    to_come = grows * max(0.0, _RING_SECONDS - after["age"])
    return {
        "seconds": round(nanoseconds / 1e9, 2),
        "unit_cpu_percent": 100 * (after[spent] - before[spent]) / nanoseconds,
        "probe_cpu_percent": 100 * (after["schedstat"] - before["schedstat"]) / nanoseconds,
        "restarts": after["NRestarts"],
        "unit_bytes": after["MemoryCurrent"],
        "unit_in_the_end_bytes": after["MemoryCurrent"] + to_come,
        "used_bytes": used,
        "used_in_the_end_bytes": used + to_come,
        "unit_anonymous_bytes": anonymous,
        "unit_mapped_bytes": mapped,
        "unit_file_bytes": stat.get("file", stat.get("cache", 0.0)),
        "unit_shared_bytes": shared,
        "unit_kernel_bytes": kernel,
        "ring_bytes": after["ring"],
        "pss_bytes": 1024 * after["Pss"],
        "rss_bytes": 1024 * after["Rss"],
        "private_bytes": 1024 * (after["Private_Clean"] + after["Private_Dirty"]),
    }


def missed(row: Mapping[str, Any]) -> list[str]:
    """The goals missed by the row, in words."""
    found = []
    for each in row["windows"]:
        if each["unit_cpu_percent"] > MOST_PERCENT:
            found.append(f"the probe's unit: {each['unit_cpu_percent']:.3f}% of a core, more than {MOST_PERCENT:g}")
        if each["used_in_the_end_bytes"] > MOST_BYTES:
            found.append(
                f"the probe's unit: {each['unit_in_the_end_bytes'] / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:g}"
            )
        if each["restarts"]:
            found.append(f"the probe was started again {each['restarts']:g} times")
    return found


def text(row: Mapping[str, Any]) -> list[str]:
    """The row as text."""
    lines = [f"the probe as deployed, {row['watched']} of {row['processes']} load processes seen"]
    for each in [row["charged"], *row["windows"]]:
        megabytes = {
            name.removesuffix("_bytes"): value / 1e6 for name, value in each.items() if name.endswith("_bytes")
        }
        lines.append(
            f"  {each['unit_cpu_percent']:.3f}% of a core over {each['seconds']:g} s; MB: "
            + ", ".join(f"{name} {value:.2f}" for name, value in megabytes.items())
        )
    return lines


def _window(host: Host, seconds: float) -> dict[str, float]:
    before = _figures(host)
    time.sleep(seconds)
    return window(before, _figures(host))


def _figures(host: Host) -> dict[str, float]:
    found = figures(host.ssh(_READ))
    if absent := _NEEDED - found.keys():
        raise NothingSampled(f"{host}: {_UNIT} has no {', '.join(sorted(absent))}: is it running, in a cgroup?")
    return found


@contextlib.contextmanager
def _loaded(host: Host, words: str) -> Iterator[list[int]]:
    """The load processes on a host; their pids there. They end with the connection."""
    host.ssh(f"cp $(realpath /usr/bin/python3) {_LOAD}")
    host.write("/root/load.py", _SOURCE.read_bytes())
    with subprocess.Popen(
        host.command(words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        try:
            pids = [int(word) for word in parent.stdout.readline().split()]
            if not pids:
                raise NothingSampled(f"{shlex.quote(words)} did not start on {host}")
            yield pids
        finally:
            parent.kill()


def _take_back(host: Host) -> None:
    """Reclaim memory from the unit. Raises NothingSampled if the kernel cannot: older than 5.19 with cgroups of version
    2."""
    if "absent" in host.ssh(_TAKE_BACK):
        raise NothingSampled(f"{host}: its cgroups have neither memory.force_empty nor memory.reclaim")


def _forget_files() -> None:
    """Empty the page cache of the machine, except for mapped pages."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def _entities(site: Site) -> int:
    """Number of the host's processes visible to readers, over TLS."""

    def current() -> int:
        done = site.shows("reader", "query", "--host", WATCHED, "--set", "processes", "--latest", "--json")
        rows = json.loads(done.stdout or '{"rows": []}')["rows"]
        return len({(row["entity"], row.get("stable")) for row in rows if row["state"] == "current"})

    return eventually(current, _SETTLE_SECONDS, f"no process of {WATCHED} is current", error=NothingSampled)


def _limit(host: Host) -> str:
    return host.ssh(f"systemctl show -P MemoryMax {_UNIT}").strip()
