"""``python -m experiments.tls_cost``: CPU of the shards per frame with TLS to that without, in turn.

A row is of pairs of runs on fresh shards, one after the other: of bare XADDs by one client over 100 connections (xadd),
or of experiments.ingest, the whole pipeline with the filter's reading and committing, in a closed loop (saturated) and
at so many frames/s. A ratio is of one pair; the median of all is shown.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from acquisition.errors import UsageError
from acquisition.link.resp import Connection, packed, raise_for
from acquisition.shards import grants
from acquisition.shards.launch import Shards, start_shards
from acquisition.wire import keys
from experiments.harness import ingestion, outcome
from experiments.harness.options import Options
from experiments.harness.usage import cpu_seconds
from experiments.processes import access, tls_shards
from experiments.processes.needs import require
from experiments.processes.program import program
from experiments.processes.tls_shards import TlsShards

_PATIENCE, _MEMORY = 20.0, 256 << 20
_EXAMPLES = """\
examples:
  python -m experiments.tls_cost --rows saturated,1000 --seconds 4
  python -m experiments.tls_cost --seconds 15 --repeats 3
      all rows, 10,000 connections among them"""
_FRAMES = Options(entities=100, metrics=15, retention_seconds=1.0, check=20, drain_seconds=60.0)  # 6 kB each
_BARE = "xadd"
_CONNECTIONS, _FRAME_BYTES, _KEPT = 100, 6_900, 64
#: What is offered, and the most that TLS may cost.
ROWS = {
    _BARE: (_FRAMES, 2.0),
    "saturated": (replace(_FRAMES, hosts=100, rate=0.0), 2.0),
    "1000": (replace(_FRAMES, hosts=1000, lean=True), 1.3),
    "10000": (replace(_FRAMES, hosts=10_000, lean=True, position_interval=10.0), 1.7),
}


@program("tls_cost")
def main(argv: list[str]) -> int:
    """Measure, print, and say whether TLS costs more than it may."""
    parser = outcome.parser("tls_cost", (__doc__ or "").partition("\n\n")[2], _EXAMPLES, seconds=6.0, repeats=2)
    parser.add_argument("--rows", default=",".join(ROWS), metavar="ROW,...", help="of %(default)s: frames/s")
    parser.add_argument("--warmup", type=float, default=3.0, metavar="S", help="time before a window (default 3)")
    given = parser.parse_args(argv)
    outcome.require_positive(given, "seconds", "repeats")
    chosen = [name for name in given.rows.split(",") if name]
    if unknown := set(chosen) - set(ROWS):
        raise UsageError(f"--rows: there is no row {min(unknown)!r}; there are {', '.join(ROWS)}")
    require(access.missing)
    failures: list[str] = []
    rows = {name: _row(name, given.seconds, given.warmup, given.repeats, failures) for name in chosen}
    missed = [f"{name}: {row['ratio']} instead of {row['most']}" for name, row in rows.items() if not row["met"]]
    return outcome.conclude(outcome.document("tls_cost", argv, failures, {"rows": rows}, missed), given, _text)


def _row(name: str, seconds: float, warmup: float, repeats: int, failures: list[str]) -> dict[str, Any]:
    offered, most = ROWS[name]
    options = replace(offered, seconds=seconds, warmup=warmup)
    pairs = []
    for number in range(repeats):
        if name == _BARE:
            plain, tls = (_bare(tls, seconds) for tls in (False, True))
        else:
            plain, tls = (_microseconds(replace(options, tls=tls), failures) for tls in (False, True))
        pairs.append({"plain_us": plain, "tls_us": tls, "ratio": round(tls / plain, 3)})
        print(f"{name} {number + 1} of {repeats}: {pairs[-1]}", file=sys.stderr, flush=True)
    ratio = median(pair["ratio"] for pair in pairs)
    return {"ratio": ratio, "most": most, "met": ratio <= most, "pairs": pairs}


def _microseconds(options: Options, failures: list[str]) -> float:
    """CPU time of the shards for a frame."""
    run = ingestion.measure(options)
    failures += run["failures"]
    figures = run["figures"]
    return float(round(figures["cpu_cores"]["shards"] / figures["frames_per_second"] * 1e6, 2))


def _bare(tls: bool, seconds: float) -> float:
    """CPU time of a shard for an XADD of a frame of ours, when it has 100 to answer at a time."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-tls-") as name, contextlib.ExitStack() as stack:
        shards = _one_shard(tls, Path(name, "shards"), stack)
        user = shards.access.credentials(grants.PROBE) if isinstance(shards, TlsShards) else None
        clients = [
            stack.enter_context(contextlib.closing(Connection(shards.addresses[0], user, _PATIENCE)))
            for _ in range(_CONNECTIONS)
        ]
        key = keys.raw(keys.tags(keys.DEFAULT_PARTITIONS)[0])
        sent = packed(("XADD", key, "MAXLEN", "~", _KEPT, "*", "f", os.urandom(_FRAME_BYTES)))
        _turn(clients, sent)
        began, before, frames = time.monotonic(), cpu_seconds(shards.pids[0]), 0
        while time.monotonic() - began < seconds:
            frames += _turn(clients, sent)
        return round((cpu_seconds(shards.pids[0]) - before) / frames * 1e6, 2)


def _one_shard(tls: bool, place: Path, stack: contextlib.ExitStack) -> Shards | TlsShards:
    if tls:
        return stack.enter_context(tls_shards.running(1, place, 2 * _CONNECTIONS, _MEMORY))
    return stack.enter_context(start_shards(1, place, maxmemory_bytes=_MEMORY))


def _turn(clients: list[Connection], sent: bytes) -> int:
    """One entry on each connection; how many were taken. Raises ShardError."""
    for client in clients:
        client.send(sent)
    return len([raise_for(client.receive()) for client in clients])


def _text(document: dict[str, Any]) -> list[str]:
    return [
        f"{name:>9}: {row['ratio']:.2f} (at most {row['most']}), "
        + ", ".join(f"{pair['tls_us']:.1f} to {pair['plain_us']:.1f} µs" for pair in row["pairs"])
        for name, row in document["rows"].items()
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
