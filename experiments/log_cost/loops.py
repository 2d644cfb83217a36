"""Loop process (``LOOP VARIANT VMS DIR``): iterations as stdin orders.

Each line of stdin is a number of iterations; the answer is their CPU seconds in this process. The first line of stdout
is the number of log statements removed. DIR has a /proc with VMS guests (``guests``), and gets a shard. No module of
the product is imported before the variant is known.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import partial
from pathlib import Path

from experiments.log_cost import without

NONE = "none"
LEVELS = {"shipped": "", "info": "info", "debug": "debug"}  #: variant -> value of --log
_INTERVAL = 0.001  #: seconds between two ticks: less than the duration of one, so that the next one is always due
_LONG = 86400.0
_PATIENCE = 60.0
Iterate = Callable[[], float]  #: one iteration; its CPU seconds


def guests(directory: Path, count: int) -> None:
    """Make ``directory``/proc: files of this machine's /proc, and qemu processes, copies of this one."""
    proc = directory / "proc"
    for name in ("stat", "meminfo", "vmstat", "net/dev", "sys/kernel/random/boot_id", "sys/kernel/task_delayacct"):
        if (there := Path("/proc", name)).exists():
            (proc / name).parent.mkdir(parents=True, exist_ok=True)
            (proc / name).write_bytes(there.read_bytes())
    own = {name: Path("/proc/self", name).read_bytes() for name in ("stat", "status", "io", "schedstat", "cgroup")}
    fields = own["stat"].rpartition(b")")[2]
    for pid in range(1000, 1000 + count):
        base = proc / str(pid)
        (base / "task" / str(pid)).mkdir(parents=True)
        changed = {
            "stat": b"%d (qemu-system-x86)%s" % (pid, fields),
            "status": re.sub(rb"\n(Tgid|Pid):\t\d+", rb"\n\1:\t%d" % pid, own["status"]),
        }
        for name, data in {**own, **changed}.items():
            (base / name).write_bytes(data)
        words = ["qemu", "-name", f"guest=web-{pid}", "-uuid", f"00000000-0000-4000-8000-{pid:012x}", "-smp", "2"]
        (base / "cmdline").write_bytes("\0".join([*words, "-m", "1024", ""]).encode())
        (base / "exe").symlink_to("/usr/bin/qemu-system-x86_64")


def probe(vms: int, directory: Path, stack: ExitStack) -> Iterate:
    """A tick of the probe: sources, checks, frame, outbox, sending to a shard."""
    from acquisition.config.settings import Settings
    from acquisition.model.identity import host_id
    from acquisition.outbox.frames.store import Outbox
    from acquisition.outbox.writer import Writer
    from acquisition.shards.servers.launch import start_shards
    from probes.loop import probe as module
    from probes.loop.agent_settings import AgentSettings, ModuleSettings
    from probes.metrics import VMS
    from probes.processes.discovery import Selection
    from probes.sampling.host_facts import HostFacts

    shards = stack.enter_context(start_shards(1, directory / "shards", maxmemory_bytes=512 << 20))
    writer = Writer(host_id("here"), "here", shards.addresses, shards.credentials, Outbox(None), shed_after=_LONG)
    stack.callback(writer.close)
    metrics = tuple(metric.name for metric in VMS.metrics)
    settings = AgentSettings(
        "here", (), "", "", "", (), "", "", 2.0, "", 1 << 24, 600.0, 2.0, _LONG, _LONG,
        (ModuleSettings("vms", "procfs", _INTERVAL, metrics),), Selection()._asdict(), asdict(Settings().checks), (),
    )  # fmt: skip
    vars(module)["HostFacts"] = partial(HostFacts, proc=f"{directory}/proc")
    made = module.Probe(settings, writer, lambda line: print(line, file=sys.stderr))
    stack.callback(made.close)
    (vms_module,) = made.modules

    def tick() -> float:
        before, began = vms_module.schedule.ticks, time.process_time()
        while vms_module.schedule.ticks == before:
            made.step()
        return time.process_time() - began

    tick()
    _await(lambda: bool(tick()) and not writer.problem)
    if not (found := vms_module.samples / vms_module.readings / len(metrics)) == vms:
        raise RuntimeError(f"{found:g} of {vms} guests were found")
    return tick


def worker(vms: int, directory: Path, stack: ExitStack) -> Iterate:
    """A turn of the filter over a frame of the VMs: reading, smoothing, committing."""
    from acquisition.link.layouts import read_layout
    from acquisition.model.metric import resource_set_id, schema_hash
    from acquisition.shards.servers.launch import start_shards
    from acquisition.wire import frame as wire
    from acquisition.wire import keys, table
    from filters.runtime.memory import keep_freed_memory
    from filters.worker.inputs.plan import InputsSettings
    from filters.worker.loop.assembly import lone_worker
    from filters.worker.partitions.settings import FilterSettings
    from probes.metrics import VMS

    keep_freed_memory()
    shards = stack.enter_context(start_shards(1, directory / "shards", maxmemory_bytes=512 << 20))
    cluster = stack.enter_context(closing(shards.connect()))
    layout = read_layout(cluster)
    settings = FilterSettings(linger_seconds=0.0, retention_seconds=5.0, inputs=InputsSettings())
    host, number, name = 1 << 40, resource_set_id("vms"), "vms"
    made = lone_worker(cluster, layout, settings, [keys.partition_of(host, layout.partitions)])
    stack.callback(made.close)
    key, count = keys.raw(layout.tags[keys.partition_of(host, layout.partitions)]), len(VMS.metrics)
    ids = b"".join(identity.to_bytes(8, "little") for identity in range(1, vms + 1))
    entities = tuple(table.Entity(each, "vm", str(each), "1", f"web-{each}") for each in range(1, vms + 1))
    names = table.encode(table.Table("here", name, 1.0, "procfs", True, VMS.metrics, entities))
    schema, sent = schema_hash(VMS.metrics), 0

    def push(payload: bytes = b"", values: bytes = b"") -> None:
        nonlocal sent
        rows, at = vms if values else 0, 1000.0 + sent
        frame = wire.Frame(
            wire.KIND_SAMPLES if rows else wire.KIND_TABLE, schema if rows else 0, host, number, rows,
            count if rows else 0, 1.0, 1, sent + 1, 1, max(0, sent - 1) * vms * count, int(at), at + 0.5, at,
            ids if rows else b"", values, payload=payload,
        )  # fmt: skip
        cluster.gather([(key, ("XADD", key, "MAXLEN", "~", 100, "*", keys.ENTRY_FIELD, wire.encode(frame)))])
        sent += 1

    def turn() -> float:
        values = _VALUES[sent % 2] * (vms * count)
        push(values=values)
        deadline, began = time.monotonic() + _PATIENCE, time.process_time()
        while made.counters["frames"] < sent - 1:
            made.turn(0.02)
            if time.monotonic() > deadline:
                raise TimeoutError("the filter does not keep up")
        return time.process_time() - began

    push(payload=names)
    return turn


_VALUES = (b"\0\0\0\x3f", b"\0\0\x80\x3e")  #: 0.5 and 0.25, so that no sample repeats the previous one
LOOPS = {"probe": probe, "filter": worker}


def _await(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("the shard takes no frames")


def main(words: list[str]) -> None:
    """See the module."""
    loop, variant, vms, directory = words[0], words[1], int(words[2]), Path(words[3])
    remover = without.install() if variant == NONE else without.Remover()
    from acquisition import log

    with ExitStack() as stack:
        iterate = LOOPS[loop](vms, directory, stack)
        log.apply(log.levels(LEVELS.get(variant, "")))
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # the shard has the first core: the same in every run
        print(remover.removed, flush=True)
        for line in sys.stdin:
            print(sum([iterate() for _ in range(int(line))]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
