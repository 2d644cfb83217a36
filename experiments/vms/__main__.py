"""VM watching cost: 1 to 200 guests, beside libvirt clients, and storms.

In namespaces of its own run a libvirtd, guests by TCG that are started once, two shards and a filter. While guests are
added the probe's CPU per tick gives ratio(i): what VM i costs to watch, to what the first one does. Then each system
watches the same guests in turn, once a second: nobody, the probe, collectd's virt plugin (its default, and as the study
of Vdsm set it), and prometheus-libvirt-exporter, each with the CPU that libvirtd and qemu spend on its questions. At
last guests are killed and started in storms: the probe must keep no descriptor and show no VM twice. A system that is
not installed is left out, with the reason. Needs root, qemu, libvirtd and virsh.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from acquisition.errors import UnavailableError
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.snapshot import SnapshotReader
from experiments.harness import outcome
from experiments.processes import needs
from experiments.processes.control import Child, product
from experiments.processes.program import program
from experiments.processes.waiting import eventually, pause
from experiments.vms.site import INSIDE, Site, enter, uuid_of
from experiments.vms.watchers import ALL, COLLECTD, NOBODY, PACKAGES, PROBE, TOOLS, Cost, measured, watching

NEEDS = (
    needs.tool("qemu-system-x86_64", "qemu-system-x86"),
    needs.tool("libvirtd", "libvirt-daemon-system"),
    needs.tool("virsh", "libvirt-clients"),
    needs.tool("unshare", "util-linux"),
    lambda: "" if os.geteuid() == 0 else "it needs root",
)
_SETTLING = 5.0  #: seconds not measured at the start of a probe
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200)
_OFTEN = 0.2  #: seconds between two ticks while ratio(i) is measured: more of them in a window
_PATIENCE = 60.0
_STILL = 4  #: looks at the descriptors, a second apart, that must agree
_RATIO = 1.1  #: ratio(i) at most
_CHEAPER, _CHEAPER_WITH_QEMU = 20.0, 30.0  #: than collectd's defaults, without and with qemu's share

_EXAMPLES = """\
examples:
  python -m experiments.vms --guests 20 --seconds 60 --repeats 5 --save vms
  python -m experiments.vms --guests 200 --json
  python -m experiments.vms --guests 10 --only storms"""
_PARTS = ("ratio", "table", "storms")


@program("vms")
def main(argv: list[str]) -> int:
    """Measure and print."""
    given = _parse(argv)
    needs.require(*NEEDS)
    if INSIDE not in os.environ:
        return enter(["experiments.vms", *argv])
    with ExitStack() as stack:
        site = Site(given.vcpus)
        stack.callback(site.daemon.kill)
        shards = stack.enter_context(start_shards(2, site.directory / "shards", maxmemory_bytes=256 << 20))
        (site.directory / "filter.toml").write_text("# defaults\n")
        filter_ = product("filter", site.directory / "filter.toml", shards.addresses)
        log = stack.enter_context((site.directory / "filter.log").open("wb"))
        stack.enter_context(Child("filter", filter_, stderr=log, stdout=log))
        figures = _run(site, shards, given)
    missed = _missed(figures)
    return outcome.conclude(outcome.document("vms", argv, figures.pop("failures"), figures, missed), given, _text)


def _parse(argv: list[str]) -> argparse.Namespace:
    made = outcome.parser("vms", __doc__ or "", _EXAMPLES, seconds=30.0, repeats=3, seed=1)
    made.add_argument("--guests", type=int, default=20, metavar="N", help="guests at the end (default %(default)s)")
    made.add_argument("--vcpus", type=int, default=2, metavar="N", help="of each guest (default %(default)s)")
    made.add_argument(
        "--interval", type=float, default=1.0, metavar="S",
        help="seconds between two looks of each system (default %(default)s; collectd's own default is 10)",
    )  # fmt: skip
    made.add_argument("--storms", type=int, default=10, metavar="N", help="storms (default %(default)s)")
    made.add_argument("--in-storm", type=int, default=10, metavar="N", help="guests of each (default %(default)s)")
    made.add_argument("--only", choices=_PARTS, action="append", help="one part; may be given again (default: all)")
    given = made.parse_args(argv)
    outcome.require_positive(given, "guests", "vcpus", "seconds", "repeats")
    return given


def _run(site: Site, shards: Shards, given: argparse.Namespace) -> dict[str, Any]:
    parts = given.only or _PARTS
    figures: dict[str, Any] = {"guests": given.guests, "vcpus": given.vcpus, "failures": []}
    began = time.monotonic()
    if "ratio" in parts:
        figures["ratio"] = _ratio(site, shards, given)
    else:
        site.start(_names(0, given.guests))
    figures["start_seconds"] = round(time.monotonic() - began, 1)
    if "table" in parts:
        figures["systems"], figures["left_out"] = _table(site, shards, given)
    if "storms" in parts:
        figures["storms"], figures["failures"] = _storms(site, shards, given)
    return figures


def _names(first: int, last: int) -> list[str]:
    return [f"vm-{number}" for number in range(first, last)]


def _ratio(site: Site, shards: Shards, given: argparse.Namespace) -> list[dict[str, float]]:
    """CPU of a tick by number of guests; ``ratio``: the cost of each added guest, relative to the first."""
    rows: list[dict[str, float]] = []
    with watching(PROBE, site.directory, shards, _OFTEN) as pid:
        time.sleep(_SETTLING)  # it reads everything once
        for guests in (0, *(each for each in (*_STEPS, given.guests) if each <= given.guests)):
            if rows and guests == rows[-1]["guests"]:
                continue
            site.start(_names(len(site.names), guests))
            _until_seen(shards, site.names)
            time.sleep(2.0)  # the table, and everything that is read once
            part = given.seconds / given.repeats  # other load only adds: the minimum of several windows
            tick = _OFTEN * min(measured(pid, 0, [], part).watcher for _ in range(given.repeats))
            row = {"guests": guests, "tick_ms": round(1e3 * tick, 4)}
            if rows:
                row["each_ms"] = round((row["tick_ms"] - rows[-1]["tick_ms"]) / (guests - rows[-1]["guests"]), 5)
                row["ratio"] = round(row["each_ms"] / (rows[1] if len(rows) > 1 else row)["each_ms"], 3)
            rows.append(row)
            print(f"vms: {row}", file=sys.stderr)
    return rows


def _table(site: Site, shards: Shards, given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    """Each system in turn, repeat by repeat; medians, and the cost added to that without a watcher."""
    left_out = {name: said for name in ALL if (said := _absent(name))}
    runs: dict[str, list[Cost]] = {name: [] for name in ALL if name not in left_out}
    for _ in range(given.repeats):
        for name, costs in runs.items():
            with watching(name, site.directory, shards, given.interval) as pid:
                time.sleep(min(5.0, given.seconds))
                costs.append(measured(pid, site.daemon.pid, site.pids(), given.seconds))
            print(f"vms: {name} {costs[-1]}", file=sys.stderr)
    return _compared({name: Cost(*map(median, zip(*each, strict=True))) for name, each in runs.items()}), left_out


def _absent(name: str) -> str:
    tool = TOOLS.get(name)
    return needs.tool(tool, PACKAGES[tool])() if tool else ""


def _compared(found: dict[str, Cost]) -> dict[str, Any]:
    """Cores added by each with and without the share of qemu, and their multiple of the probe's."""
    idle = found[NOBODY]
    made: dict[str, Any] = {}
    for name, cost in found.items():
        libvirtd, qemu = max(0.0, cost.libvirtd - idle.libvirtd), max(0.0, cost.qemu - idle.qemu)
        made[name] = cost._asdict() | {
            "added": cost.watcher + libvirtd,
            "added_with_qemu": cost.watcher + libvirtd + qemu,
        }
    if PROBE in made:
        for row in made.values():
            row["times"] = row["added"] / made[PROBE]["added"]
            row["times_with_qemu"] = row["added_with_qemu"] / made[PROBE]["added_with_qemu"]
    return made


def _storms(site: Site, shards: Shards, given: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    """Kill guests at random and start others: descriptors of the probe, and the number of times each VM is seen."""
    chance, failures = random.Random(given.seed), []
    with watching(PROBE, site.directory, shards, given.interval) as pid:
        _until_seen(shards, site.names)
        counts = [_settled(pid)]
        for storm in range(given.storms):
            gone = chance.sample(site.names, min(given.in_storm, len(site.names)))
            site.kill(gone)
            site.start(gone if storm % 2 else [f"{name.partition('.')[0]}.{storm}" for name in gone])
            try:
                _until_seen(shards, site.names)
            except UnavailableError as error:
                failures.append(f"storm {storm}: {error}")
        counts.append(_settled(pid))
    if counts[1] > counts[0]:
        failures.append(f"the probe had {counts[0]} descriptors before the storms and has {counts[1]}")
    return {"storms": given.storms, "in_storm": given.in_storm, "descriptors": counts}, failures


def _settled(pid: int) -> int:
    """Descriptors of a process, once their number has stayed the same for some ticks."""
    counts: list[int] = []
    until = time.monotonic() + _PATIENCE
    while len(counts) < _STILL or len(set(counts[-_STILL:])) > 1:
        if time.monotonic() > until:
            break
        time.sleep(1.0)
        counts.append(len(os.listdir(f"/proc/{pid}/fd")))
    return counts[-1]


def _until_seen(shards: Shards, names: Sequence[str]) -> None:
    """Wait until exactly these guests are seen, each once. Raises UnavailableError."""
    wanted = sorted(map(uuid_of, names))

    def seen() -> list[str]:
        with SnapshotReader(shards.connect(), 0.3) as reader:
            blocks = [block for block in reader.latest().blocks if block.resource_set == "vms"]
        return sorted(entity.stable for block in blocks for entity in block.entities)

    def problem() -> str:
        found = seen()
        return f"{len(found)} VMs are seen ({len(set(found))} different ones), {len(wanted)} run"

    eventually(lambda: seen() == wanted, _PATIENCE, problem, partial(pause, 0.2), UnavailableError)


def _missed(figures: dict[str, Any]) -> list[str]:
    ratios = [row["ratio"] for row in figures.get("ratio", []) if row["guests"] >= _STEPS[3]]
    missed = [f"ratio(i) is {max(ratios):.2f}, at most {_RATIO} was to be"] if ratios and max(ratios) > _RATIO else []
    collectd = figures.get("systems", {}).get(COLLECTD)
    for key, least in (("times", _CHEAPER), ("times_with_qemu", _CHEAPER_WITH_QEMU)):
        if collectd is not None and collectd[key] < least:
            missed.append(f"collectd's defaults cost {collectd[key]:.1f} times the probe ({key}), not {least:g}")
    return missed


def _text(found: dict[str, Any]) -> list[str]:
    lines = [f"{found['guests']} guests of {found['vcpus']} vCPUs, started and looked at in {found['start_seconds']} s"]
    lines += [
        f"  ratio({row['guests']:g}) {row.get('ratio', '-')}: {row['tick_ms']} ms a tick"
        for row in found.get("ratio", [])
    ]
    for name, row in found.get("systems", {}).items():
        lines.append(
            f"  {name:<17} watcher {row['watcher']:.3%} libvirtd {row['libvirtd']:.3%} qemu {row['qemu']:.3%}, added "
            f"{row['added']:.3%} ({row['times']:.1f} times ours), with qemu {row['added_with_qemu']:.3%} "
            f"({row['times_with_qemu']:.1f}), {row['memory'] / 1e6:.1f} MB"
        )
    lines += [f"  {name} is left out: {why}" for name, why in found.get("left_out", {}).items()]
    return lines + ([f"  storms: {found['storms']}"] if "storms" in found else [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
