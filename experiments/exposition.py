"""``python -m experiments.exposition``: what one scrape of ``/metrics`` costs.

Renders a snapshot of emulated hosts, each with one row of its own and so many VMs, as `/metrics` does. Reading
the snapshot is not part of it; every repetition decodes its records anew, label texts are kept, as in the service.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import sys
import time
from statistics import median
from typing import Any

import numpy as np

from acquisition.model import codes
from acquisition.model.derived import DERIVED
from acquisition.model.metric import ResourceSet, resource_set_id, schema_hash
from acquisition.snapshot import Snapshot
from acquisition.snapshot.block import Block
from acquisition.snapshot.inputs import InputsTable
from acquisition.snapshot.names import Names
from acquisition.snapshot.states import CURRENT
from acquisition.wire import inputs as wire
from acquisition.wire import smoothed
from acquisition.wire.position import Position
from acquisition.wire.table import Table
from experiments.emulation.membership import entity
from experiments.emulation.workload import host_name, host_number, resource_set, scale
from experiments.harness import outcome
from experiments.processes.program import program
from filters.exposition import Options, Prepared, render
from filters.exposition.options import HOSTS, INPUTS
from probes.metrics import HOST

_NOW = 1_800_000_000.0
_INVALID = 0.01


@program("exposition")
def main(argv: list[str]) -> int:
    """Measure and print one JSON document."""
    options = _parser().parse_args(argv)
    names = _names(options)
    rng = np.random.default_rng(1)
    prepared, chosen = Prepared(), Options(entities=not options.hosts_only, inputs=options.inputs)
    wall, cpu, text = [], [], b""
    for _ in range(options.repeats + 1):
        snapshot = Snapshot("coherent", _NOW, [_block(known, rng) for known in names], ())
        tables = {(one.host_id, one.set_id): _inputs(one, rng) for one in snapshot.blocks}
        begun, used = time.perf_counter(), time.process_time()
        text = render(snapshot, None, chosen, prepared=prepared, tables=tables)
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    begun = time.perf_counter()
    packed = gzip.compress(text, 1)
    figures: dict[str, Any] = {
        "first_seconds": round(wall[0], 4),
        "median_seconds": round(median(wall[1:]), 4),
        "worst_seconds": round(max(wall[1:]), 4),
        "median_cpu_seconds": round(median(cpu[1:]), 4),
        "series": sum(not line.startswith(b"#") for line in text.splitlines()),
        "bytes": len(text),
        "gzip_bytes": len(packed),
        "gzip_seconds": round(time.perf_counter() - begun, 4),
        "peak_memory_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    return outcome.conclude(outcome.document("exposition", argv, [], figures), options)


def _names(options: argparse.Namespace) -> list[Names]:
    """The tables of all hosts: their own row, and their VMs."""
    host_metrics = HOST.metrics[: options.metrics]
    vms = resource_set(options.metrics)
    found = []
    for index in range(options.hosts):
        name = host_name(index)
        own, *guests = (entity(index, serial) for serial in range(max(1, options.entities)))
        for columns, rows in ((ResourceSet("host", host_metrics), [own]), (vms, guests)):
            if rows:
                found.append(Names(Table(name, columns.name, 1.0, "procfs", True, columns.metrics, tuple(rows))))
    return found


def _block(names: Names, rng: np.random.Generator) -> Block:
    """A current block with random values of ordinary size, of which 1% are not valid now."""
    table = names.table
    host, number = host_number(int(table.host[4:9])), resource_set_id(table.resource_set)
    n, m = len(table.entities), len(table.metrics)
    mean = rng.random((n, m), np.float32) * np.array([scale(metric) for metric in table.metrics], np.float32)
    bad = np.flatnonzero(rng.random(n * m) < _INVALID)
    exceptions = np.zeros(len(bad), smoothed.EXCEPTION)
    exceptions["index"], exceptions["code"], exceptions["age"] = bad, codes.RANGE, 1.0
    head = smoothed.HEADER.pack(
        smoothed.MAGIC, smoothed.VERSION, 4, m, n, len(bad), host, number, schema_hash(table.metrics), 1.0, 0,
        b"\1\2\3\4\0\0\0\0", 1, 1, int(_NOW) - 1, _NOW - 0.5, 1.0, _NOW - 0.49,
    )  # fmt: skip
    ids = np.array([one.id for one in table.entities], "<u8").tobytes()
    data = head + ids + np.stack([mean, mean, mean, mean]).astype("<f4").tobytes() + exceptions.tobytes()
    block = Block(host, number, Position(1, 1, int(_NOW) - 1, _NOW - 0.5, 1.0))
    block.take(smoothed.check(data), data)
    block.use_names(names, None)
    block.state, block.age_seconds = CURRENT, 0.5
    return block


def _inputs(block: Block, rng: np.random.Generator) -> InputsTable:
    """Decision inputs of the metrics that have them by default: three derived ones of a host, CPU of VMs."""
    host = block.resource_set == HOST.name
    metrics, derived = (tuple(DERIVED), len(DERIVED)) if host else (("cpu_ratio",), 0)
    columns, rows = len(metrics), len(block.ids)
    figures = wire.PLATEAU | (wire.ORDER_STATISTICS if host else 0)
    head = wire.Head(columns, derived, figures, 0, 30, 8, 4, 120, 0, 10, 1, 1, 30.0, 8.0, 4.0)
    section = wire.Section(
        head, np.zeros(rows), rng.random((len(wire.figure_names(figures)), columns, rows), np.float32),
        rng.random((len(wire.DERIVED_PLANES), derived, rows), np.float32), np.full(columns, 0.85, np.float32),
        np.zeros(columns, np.float32), np.arange(columns - derived, dtype=np.uint16), np.full(rows, 30, np.uint8),
        np.ones((len(wire.COUNTS), columns, rows), np.uint8), np.zeros((derived, rows), np.uint8), metrics,
    )  # fmt: skip
    beside, whole = wire.encode(section), smoothed.unpack_head(block.data)
    data = smoothed.HEADER.pack(*whole._replace(inputs_size=len(beside))) + beside + block.data[whole.ids_at :]
    whole = smoothed.check(data)
    return InputsTable(wire.check(beside, rows), whole, data)


def _parser() -> argparse.ArgumentParser:
    description, _, more = (__doc__ or "").partition("\n\n")
    parser = outcome.parser(
        "exposition", f"{description}\n\n{more}", "", hosts=100, entities=101, metrics=15, repeats=15
    )
    parser.add_argument("--hosts-only", action="store_true", help="as the option of `shardpulse metrics`")
    parser.add_argument("--inputs", choices=INPUTS, default=HOSTS, help="as the option of `shardpulse metrics`")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
