"""Watchers of the guests as installed, and their CPU cost in all processes.

The cost includes their own, libvirtd's and qemu's.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from acquisition.shards.servers.launch import Shards
from experiments.processes.control import product
from probes.loop.account import pss_bytes

NOBODY, PROBE, COLLECTD, VDSM, EXPORTER = "nobody", "probe", "collectd", "collectd_vdsm", "libvirt_exporter"
#: Debian's packages of the other watchers.
TOOLS = {COLLECTD: "collectd", VDSM: "collectd", EXPORTER: "prometheus-libvirt-exporter"}
PACKAGES = {"collectd": "collectd-core", "prometheus-libvirt-exporter": "prometheus-libvirt-exporter"}
ALL = (NOBODY, PROBE, COLLECTD, VDSM, EXPORTER)

_PORT = 9177
#: No plugin writes: that additional cost of collectd is not counted.
_COLLECTD = """\
BaseDir "{directory}"
PIDFile "{directory}/collectd.pid"
PluginDir "/usr/lib/collectd"
TypesDB "/usr/share/collectd/types.db"
Interval {interval}
LoadPlugin virt
<Plugin virt>
Connection "qemu:///system"
{more}
</Plugin>
"""
#: Source 000, experiment 3.
_AS_VDSM = 'Instances 5\nExtraStats "disk pcpu"'


class Cost(NamedTuple):
    """CPU in cores, and the memory (PSS) of the watcher in bytes."""

    watcher: float
    libvirtd: float
    qemu: float
    memory: float


@contextmanager
def watching(name: str, directory: Path, shards: Shards, interval: float) -> Iterator[int]:
    """Let one of them watch at this interval in seconds; its pid, 0 without a watcher."""
    if name == NOBODY:
        yield 0
        return
    log = (directory / f"{name}.log").open("wb")
    child = subprocess.Popen(_command(name, directory, shards, interval), stdout=log, stderr=log)
    done = threading.Event()
    asking = threading.Thread(target=_scrape, args=(done, interval), daemon=True)
    try:
        if name == EXPORTER:
            asking.start()
        yield child.pid
    finally:
        done.set()
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _command(name: str, directory: Path, shards: Shards, interval: float) -> list[str]:
    if name == PROBE:
        config = directory / "probe.toml"
        config.write_text(
            f'[host]\nname = "site"\n[probe]\nring_path = "{directory}/probe.ring"\ninterval_seconds = {interval}\n'
            "[probe.processes]\nenabled = false\n"
        )
        return product("probe", config, shards.addresses)
    if name == EXPORTER:
        return ["prometheus-libvirt-exporter", f"--web.listen-address=127.0.0.1:{_PORT}"]
    config = directory / f"{name}.conf"
    config.write_text(
        _COLLECTD.format(directory=directory, interval=interval, more=_AS_VDSM if name == VDSM else "")
    )  # fmt: skip
    return ["collectd", "-f", "-C", str(config)]


def _scrape(done: threading.Event, interval: float) -> None:
    while not done.wait(interval):
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/metrics", timeout=10) as reply:
            reply.read()


def measured(watcher: int, libvirtd: int, guests: list[int], seconds: float) -> Cost:
    """The CPU of a window."""
    groups = ([watcher] if watcher else [], [libvirtd], guests)
    before, began = [_cpu(pids) for pids in groups], time.monotonic()
    time.sleep(seconds)
    after, took = [_cpu(pids) for pids in groups], time.monotonic() - began
    own, daemon, qemu = (sum(_grown(b, a)) / 1e9 / took for b, a in zip(before, after, strict=True))
    return Cost(own, daemon, qemu, float(pss_bytes(watcher) or 0) if watcher else 0.0)


def _cpu(pids: Iterable[int]) -> dict[str, int]:
    """Nanoseconds by thread; time of threads that end within a window is lost, but no such process has any at 1 Hz."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError, ValueError):
                    text = Path(f"/proc/{pid}/task/{task}/schedstat").read_text()
                    found[task] = int(text.split()[0])
    return found


def _grown(before: dict[str, int], after: dict[str, int]) -> Iterator[int]:
    for task, ran in after.items():
        yield ran - before.get(task, 0)
