"""Probe cost on its host: CPU and memory with N processes at 1 Hz.

::

    python -m experiments.probe_cost [--source procfs|tools|both] [--processes 100] [--seconds 60]
                                     [--repeats 5] [--interval 1] [--json]
                                     [--idle 5000] [--forks 300] [--vms 200]

Memory: PSS depends on other processes that map the same interpreter (the load may, with 100 processes);
``probe_private_bytes`` is the memory freed if the probe ended, ``probe_rss_bytes`` the upper bound of its use.

One run starts the load (``load_processes``), one real shard and the real probe, waits for ``--warm-up`` seconds and
measures a window: CPU of the probe and of its tools by /proc/PID/schedstat (nanoseconds; all of them have one thread),
memory by smaps_rollup. Discovery, checks, frames, outbox and sending are all included. In the same run vmstat and
pidstat alone, given the same pids, are measured for the same time, and a C program that only reads the same files
(``empty_loop.c``, if there is a C compiler): on a shared machine compare ratios. ``empty_loop`` reads all files used
for the figures, ``empty_loop_kept`` leaves out /proc/PID/status, replaced in the probe by taskstats if permitted.

``--idle``, ``--forks`` and ``--vms`` fill the host with processes that are not among the N; the VMs are processes
with the name, the command line and the threads of a qemu with two vCPUs, and the probe takes them for VMs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Any

from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.wire import keys
from acquisition.wire.status import decode
from experiments.emulation.load_processes import uninterrupted
from experiments.harness import machine
from experiments.probe_cost import beside
from experiments.processes import access, needs, tls_shards
from experiments.processes.control import product
from experiments.processes.program import program
from experiments.processes.tls_shards import TlsShards
from probes.loop.account import cpu_seconds, pss_bytes

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = {"procfs": ("procfs", "procfs"), "tools": ("vmstat", "pidstat")}
_TLS = "_tls"  #: suffix of a kind with shards that speak TLS
_BARE = ("bare_tools", *beside.PROCESS_FILES)


@program("probe_cost")
def main(argv: list[str]) -> int:
    """Run, print, and with ``--save`` keep the raw results."""
    options = _parser().parse_args(argv)
    needs.require(needs.tool("vmstat", "procps"), needs.tool("pidstat", "sysstat"))
    if options.tls:
        needs.require(access.missing)
    kinds = list(_SOURCES) if options.source == "both" else [options.source]
    kinds += [f"{kind}{_TLS}" for kind in kinds if options.tls]
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in (*kinds, *_BARE)}
    if beside.compiler() is None:
        print("probe_cost: no cc, so no empty loop to compare with: apt install gcc libc6-dev", file=sys.stderr)
    with (
        tempfile.TemporaryDirectory() as name,
        load(options.processes, Path(name)) as pids,
        beside.crowd(options.idle, options.forks, options.vms, Path(name)),
        start_shards(1, Path(name) / "shards", maxmemory_bytes=256 << 20) as shards,
        tls_shards.running(1, Path(name) / "tls", 100, 256 << 20) if options.tls else nullcontext() as secured,
    ):
        loop = beside.build(Path(name)) if beside.compiler() else None
        for repeat in range(options.repeats):
            for kind in kinds:
                over = secured if kind.endswith(_TLS) else shards
                assert over is not None
                runs[kind].append(measure_probe(kind, over, options, Path(name)))
                _progress(repeat, kind, runs[kind][-1])
            runs["bare_tools"].append(measure_tools(pids, options))
            _progress(repeat, "bare_tools", runs["bare_tools"][-1])
            for kind in beside.PROCESS_FILES:
                if loop is not None:
                    runs[kind].append(measure_loop(loop, beside.files(kind, pids), options))
                    _progress(repeat, kind, runs[kind][-1])
    result = summary(runs, options) | machine.provenance(argv, "experiments.probe_cost")
    result["machine"] = machine.describe()
    if options.save:
        path = Path(options.save)
        path.write_text(json.dumps(result | {"runs": runs}, indent=1) + "\n")
    print(json.dumps(result, indent=1) if options.json else table(result))
    return 0


@contextmanager
def load(count: int, directory: Path) -> Iterator[list[int]]:
    """``count`` load processes; their pids."""
    command = [sys.executable, "-m", "experiments.emulation.load_processes", str(count), str(directory)]
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        with uninterrupted():  # an unrecorded parent could not be ended
            parent = subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
            stack.enter_context(parent)
            stack.callback(_end_group, parent.pid)
        assert parent.stdout is not None
        yield [int(word) for word in parent.stdout.readline().split()]


def _end_group(pid: int) -> None:
    """End the load processes, including one just forked and not yet recorded."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def measure_probe(
    kind: str, shards: Shards | TlsShards, options: argparse.Namespace, directory: Path
) -> dict[str, float]:
    """One window of the probe with the sources of ``kind``."""
    host, processes = _SOURCES[kind.removesuffix(_TLS)]
    config = directory / f"{kind}.toml"
    section = shards.access.section(grants.PROBE, shards.addresses) if isinstance(shards, TlsShards) else ""
    config.write_text(
        f'{section}[host]\nname = "cost-{kind}"\n[probe]\n'
        f'interval_seconds = {options.interval}\nring_path = "/dev/shm/shardpulse-cost-{os.getpid()}.ring"\n'
        f'[probe.host]\nsource = "{host}"\n'
        f'[probe.processes]\nsource = "{processes}"\n'
        f'commands = ["experiments.emulation.load_processes {options.processes} {directory}"]\ndaemons = false\n'
    )
    with subprocess.Popen(product("probe", config, shards.addresses), cwd=_ROOT) as probe:
        try:
            time.sleep(options.warm_up)
            before = beside.sent(probe.pid)
            figures = window(probe.pid, children(probe.pid), options.seconds)
            after = beside.sent(probe.pid)
            figures |= {
                f"{name}_per_second": (after.get(name, 0) - count) / options.seconds for name, count in before.items()
            }
            if probe.poll() is not None:
                raise RuntimeError(f"the probe ended with {probe.returncode} while it was measured")
            figures |= written(shards, f"cost-{kind}", options.processes, options.vms)
        finally:
            probe.terminate()
            probe.wait()
            Path(f"/dev/shm/shardpulse-cost-{os.getpid()}.ring").unlink(missing_ok=True)
    return figures


def measure_tools(pids: list[int], options: argparse.Namespace) -> dict[str, float]:
    """One window of vmstat and pidstat alone, writing to /dev/null."""
    interval = str(max(1, int(options.interval)))
    commands = (
        ["vmstat", "-n", interval],
        ["pidstat", "-h", "-u", "-r", "-d", "-w", "-p", ",".join(map(str, pids)), interval],
    )
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        time.sleep(min(3.0, options.warm_up))
        return window(0, [each.pid for each in running], options.seconds)
    finally:
        for each in running:
            each.kill()
            each.wait()


def measure_loop(program: Path, paths: list[str], options: argparse.Namespace) -> dict[str, float]:
    """One window of the empty loop over these files."""
    with beside.empty_loop(program, paths, options.interval) as pid:
        time.sleep(min(3.0, options.warm_up))
        return window(0, [pid], options.seconds)


def window(probe: int, tools: list[int], seconds: float) -> dict[str, float]:
    """Per cent of a core and bytes of the probe (0: none) and its tools over ``seconds``."""
    started = time.monotonic()
    before = cpu_seconds(probe) if probe else 0.0, sum(map(cpu_seconds, tools))
    time.sleep(seconds)
    after = cpu_seconds(probe) if probe else 0.0, sum(map(cpu_seconds, tools))
    elapsed = time.monotonic() - started
    return {
        "cpu_percent": 100 * (after[0] - before[0] + after[1] - before[1]) / elapsed,
        "probe_cpu_percent": 100 * (after[0] - before[0]) / elapsed,
        "tools_cpu_percent": 100 * (after[1] - before[1]) / elapsed,
        "probe_pss_bytes": pss_bytes(probe) if probe else 0,
        "tools_pss_bytes": sum(map(pss_bytes, tools)),
        "probe_private_bytes": private_bytes(probe) if probe else 0,
        "probe_rss_bytes": rss_bytes(probe) if probe else 0,
    }


def written(shards: Shards | TlsShards, host: str, processes: int, vms: int = 0) -> dict[str, float]:
    """The probe's own figures in the shard. Raises RuntimeError if it watched too few or missed ticks."""
    with closing(shards.connect()) as cluster:
        tag = read_layout(cluster).tag_of(host_id(host))
        data = cluster.call(keys.raw(tag), "GET", keys.status(tag, host_id(host)))
    rest: dict[str, Any] = decode(data).rest
    modules = rest["modules"]
    watched = modules["processes"]["watched"]
    if watched < processes:
        raise RuntimeError(f"the probe watched {watched} processes instead of {processes}")
    if vms and modules["vms"]["watched"] < vms:
        raise RuntimeError(f"the probe watched {modules['vms']['watched']} VMs instead of {vms}")
    return {"ticks": rest["probe"]["ticks"], "missed_ticks": rest["probe"]["missed_ticks"], "watched": watched}


def children(pid: int) -> list[int]:
    """The child processes of ``pid``."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def private_bytes(pid: int) -> int:
    """Memory not shared with other processes (proc(5), smaps_rollup)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def summary(runs: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> dict[str, Any]:
    """Medians over the repeats, and the ratio to the bare tools."""
    medians = {
        kind: {name: median(run[name] for run in found) for name in found[0]} for kind, found in runs.items() if found
    }
    for found in medians.values():
        for kind in _BARE:
            if kind in medians:
                found[f"ratio_to_{kind}"] = found["cpu_percent"] / medians[kind]["cpu_percent"]
    return {
        "processes": options.processes,
        "crowd": {"idle": options.idle, "forks_per_second": options.forks, "vms": options.vms},
        "interval": options.interval,
        "seconds": options.seconds,
        "repeats": options.repeats,
        "medians": medians,
    }


def table(result: dict[str, Any]) -> str:
    """The medians as text."""
    lines = [
        f"host + {result['processes']} processes every {result['interval']:g} s, "
        f"medians of {result['repeats']} windows of {result['seconds']:g} s, {result['date']}",
        f"{result['machine']['cpu']}, {result['machine']['cores']} cores, Linux {result['machine']['kernel']}, "
        f"Python {result['machine']['python']}, commit {result['commit'][:12]}",
        "",
        "source          CPU % of a core  (probe + tools)   PSS MB (probe + tools)  ratio to tools, loop, loop kept",
    ]
    for kind, found in result["medians"].items():
        lines.append(
            f"{kind:<15} {found['cpu_percent']:>15.3f}  ({found['probe_cpu_percent']:.3f} + "
            f"{found['tools_cpu_percent']:.3f})   {found['probe_pss_bytes'] / 1e6:>10.2f} + "
            f"{found['tools_pss_bytes'] / 1e6:<6.2f}  "
            + "".join(f"{found[name]:>9.2f}" for name in map("ratio_to_{}".format, _BARE) if name in found)
        )
        if "bytes_sent_per_second" in found:
            lines.append(
                f"{'':<15} sends {found['bytes_sent_per_second']:,.0f} bytes/s in {found['segs_out_per_second']:.2f} "
                f"packets/s, {found['data_segs_out_per_second']:.2f} of them with data; "
                f"private memory {found['probe_private_bytes'] / 1e6:.2f} MB"
            )
    return "\n".join(lines)


def _progress(repeat: int, kind: str, run: dict[str, float]) -> None:
    print(
        f"run {repeat + 1} {kind}: {run['cpu_percent']:.3f}% {run['probe_pss_bytes'] / 1e6:.2f} MB",
        file=sys.stderr,
        flush=True,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.probe_cost", description="CPU and memory of the probe beside N processes."
    )
    parser.add_argument("--source", choices=("procfs", "tools", "both"), default="both")
    parser.add_argument("--tls", action="store_true", help="also with shards that speak TLS, in turn")
    parser.add_argument("--processes", type=int, default=100, metavar="N")
    parser.add_argument("--idle", type=int, default=0, metavar="N", help="processes that are not watched (default 0)")
    parser.add_argument("--forks", type=float, default=0.0, metavar="N", help="new processes each second (default 0)")
    parser.add_argument("--vms", type=int, default=0, metavar="N", help="processes that look like VMs (default 0)")
    parser.add_argument("--interval", type=float, default=1.0, metavar="S")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="length of a window")
    parser.add_argument("--warm-up", type=float, default=15.0, metavar="S")
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--save", metavar="FILE", help="keep the result with its raw runs")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
