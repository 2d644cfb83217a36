"""``python -m experiments.archive_live``: what the archiver and its database take, how far behind they are, how fast
they catch up.

    python -m experiments.archive_live --row live                                   # SQLite in a temporary directory
    python -m experiments.archive_live --row live postgresql://postgres@/empty      # a database that may be filled
    python -m experiments.archive_live --row backlog --hosts 100 --metrics 5 --ticks 600
    python -m experiments.archive_live --row backlog --hosts 10000 --metrics 4 --ticks 75
    python -m experiments.archive_live --row kills --hosts 40 --entities 11 --kills 100

``live``: the whole pipeline of ``ingest`` with ``shardpulse archive run`` beside it. Invalid are single samples, not
runs, which is some twenty times as many episodes; a minute is readable when rows of all hosts are there; freshness is
measured without the archiver and with it, in turn.
``backlog``: frames of ``--ticks`` seconds lie in the streams, as after so long without a database, and an archiver in
this process takes them as fast as it can; 1% of the samples are invalid, in runs of 1 to 60 s. What it costs a sample
is what it costs live.
``kills``: such a backlog, and archivers that are killed with -9 at random moments, ``--kills`` times; then every figure
of every minute must be that of each frame once. One JSON document; live speed is 50,500 samples/s for 100 hosts of 101
entities with 5 metrics.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import text

from acquisition.errors import ShardpulseError, UnavailableError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.model.codes import RANGE
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.shards.launch import start_shards
from acquisition.trouble_log import TroubleLog
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder
from acquisition.wire.stream_id import parse
from experiments.emulation.workload import host_number, resource_set
from experiments.harness import machine, pipeline, usage
from experiments.harness.options import Options
from experiments.harness.pipeline import Pipeline
from experiments.processes.control import Child, python
from experiments.processes.program import program
from filters.archive import records, writing
from filters.archive.engine import make_engine, parse_url, told
from filters.archive.follower import Follower, Limits
from filters.archive.leases import Leases
from filters.archive.migrating import migrate
from filters.archive.partition import Counts
from filters.archive.store import open_store
from filters.archive.values import Statistic

_MINUTE = 60
_AHEAD_SECONDS = 4  #: of a backlog that lie in the streams beyond what was read
_MEAN_RUN = 30.5  #: seconds that a metric stays invalid: 1 to 60
_INVALID = 0.01


@program("archive_live")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?", default="", help="the database (default: SQLite in a temporary directory)")
    parser.add_argument("--row", choices=("live", "backlog", "kills"), default="live")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--entities", type=int, default=101)
    parser.add_argument("--metrics", type=int, default=5)
    parser.add_argument("--minutes", type=int, default=2, help="that live waits for")
    parser.add_argument("--turns", type=int, default=2, help="of freshness without the archiver and with it")
    parser.add_argument("--ticks", type=int, default=600, help="seconds of frames of a backlog")
    parser.add_argument("--kills", type=int, default=100, help="of archivers")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="shardpulse-archive-") as place:
        url = options.url or f"sqlite:///{place}/archive.db"
        engine = make_engine(parse_url(url))
        with told(engine.url), engine.begin() as connection:
            migrate(connection)
        figures = {"live": live, "backlog": backlog, "kills": kills}[options.row](options, url, Path(place))
    found = {"row": options.row, "database": engine.dialect.name, "arguments": argv, "load": os.getloadavg()[0]}
    print(json.dumps({**found, "figures": figures, "machine": machine.describe("")}, indent=1))
    return 0


# ---------------------------------------------------------------- live


def live(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """The pipeline with an archiver beside it."""
    load = Options(hosts=options.hosts, entities=options.entities, metrics=options.metrics)
    with pipeline.running(load, place) as parts:
        parts.tell("start")
        parts.run(load.warmup)
        fresh: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
        found: dict[str, Any] = {}
        for turn in range(options.turns):
            fresh["without"].append(_freshness(parts, 15.0))
            with _archiver(url, parts, place) as archiver:
                if turn < options.turns - 1:
                    fresh["with"].append(_freshness(parts, 15.0))
                else:
                    parts.measure_freshness()
                    found = _watch(options, url, parts, archiver)
                    fresh["with"].append(parts.freshness()["freshness_ms"])
        found["freshness_ms"] = fresh
        found["samples_made"] = sum(report["counts"]["samples"] for report in parts.finish())
        with _archiver(url, parts, place, "--finish", "--seconds", "5") as archiver:
            found["archiver"] = archiver.receive(60.0)
    counts = found["archiver"]
    found["missing"] = found["samples_made"] - counts["archived"] - counts["gap"]
    return found


def _freshness(parts: Pipeline, seconds: float) -> dict[str, Any]:
    parts.measure_freshness()
    parts.run(seconds)
    quantiles: dict[str, Any] = parts.freshness()["freshness_ms"]
    return quantiles


@contextmanager
def _archiver(url: str, parts: Pipeline, place: Path, *more: str) -> Iterator[Child]:
    addresses = ",".join(str(address) for address in parts.shards.addresses)
    arguments = ["archive", "run", "--json", "--archive", url, "--shards", addresses, *more]
    with (
        (place / "archiver.log").open("ab") as log,
        Child("archiver", python("acquisition", *arguments), stderr=log) as it,
    ):
        yield it


def _watch(options: argparse.Namespace, url: str, parts: Pipeline, archiver: Child) -> dict[str, Any]:
    """Minute after minute: when its rows are readable, and what was spent from the first to the last."""
    engine = make_engine(parse_url(url))
    minute = (int(time.time()) // _MINUTE + 1) * _MINUTE
    readable, spent = [], []
    for wanted in range(minute, minute + (options.minutes + 1) * _MINUTE, _MINUTE):
        while _rows(engine, wanted) < options.hosts:
            archiver.check()
            if time.time() > wanted + 3 * _MINUTE:
                raise UnavailableError(f"the minute {wanted} is not readable after three")
            parts.run(0.1)
        readable.append(round(time.time() - wanted - _MINUTE, 2))
        spent.append((time.monotonic(), usage.cpu_seconds(archiver.pid), _server_seconds(engine)))
    engine.dispose()
    seconds, of_archiver, of_server = np.subtract(spent[-1], spent[0]).tolist()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{archiver.pid}/status").read_text().splitlines())
    return {
        "minute_readable_after_seconds": readable,
        "archiver_cores": round(of_archiver / seconds, 4),
        "server_cores": round(of_server / seconds, 4),
        "archiver_rss_mb": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "archiver_rss_most_mb": round(int(status["VmHWM"].split()[0]) / 1024, 1),
    }


def _rows(engine: Any, minute: int) -> int:
    with engine.connect() as connection:
        found = connection.execute(text(f"SELECT count(DISTINCT host) FROM minutes WHERE minute = {minute}"))
        return int(found.scalar_one())


def _server_seconds(engine: Any) -> float:
    """CPU seconds of all processes of a PostgreSQL that are there now; 0 for SQLite, which is in the archiver."""
    if engine.dialect.name != "postgresql":
        return 0.0
    with engine.connect() as connection:
        own = int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        connection.rollback()
    server = int(Path(f"/proc/{own}/stat").read_text().rpartition(") ")[2].split()[1])
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return sum(usage.cpu_seconds(pid) for pid in [server, *map(int, children)])


# ---------------------------------------------------------------- backlog


class Feed:
    """Frames of all hosts, second after second, put into the streams with the ids of their time."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace, began: int) -> None:
        self._cluster, self._options, self._began = cluster, options, began
        self._set = resource_set(options.metrics)
        self._random = np.random.default_rng(1)
        self._shape = (options.entities, options.metrics)
        self._values = self._random.random((64, *self._shape), dtype=np.float32)
        self._left = np.zeros((options.hosts, *self._shape), np.int16)  #: seconds that each stays invalid
        self._epoch = time.time_ns()
        #: (host, minute) -> how many, and the sum, of the valid samples of each entity and metric
        self.sums: dict[tuple[int, int], npt.NDArray[np.float64]] = {}
        numbers = [host_number(host) for host in range(options.hosts)]
        tags = keys.tags(keys.DEFAULT_PARTITIONS)
        self._hosts = [(n, number, tags[keys.partition_of(number, len(tags))]) for n, number in enumerate(numbers)]
        self._ids = [
            (np.arange(1, options.entities + 1, dtype="<u8") + (n << 20)).tobytes() for n in range(options.hosts)
        ]

    def push(self, tick: int) -> int:
        """The frames of a second; answers their samples."""
        begins = self._random.random(self._left.shape, dtype=np.float32) < _INVALID / _MEAN_RUN
        self._left = np.where(begins, self._random.integers(1, 61, self._left.shape, np.int16), self._left)
        codes = np.where(self._left > 0, RANGE, 0).astype(np.uint8)
        self._left = np.maximum(self._left - 1, 0)
        moment, cells = self._began + tick, self._shape[0] * self._shape[1]
        commands = []
        for place, host, tag in self._hosts:
            data = wire.encode(Frame(
                wire.KIND_SAMPLES, schema_hash(self._set.metrics), host, resource_set_id(self._set.name), *self._shape,
                1.0, self._epoch, tick + 1, 1, tick * cells, moment, float(moment), float(moment), self._ids[place],
                self._values[(place + tick) % 64].tobytes(), codes[place].tobytes() if codes[place].any() else b"",
            ))  # fmt: skip
            if self._options.row == "kills":
                values = np.where(codes[place] == 0, self._values[(place + tick) % 64].astype(np.float64), 0.0)
                held = self.sums.setdefault((host, moment // _MINUTE * _MINUTE), np.zeros((2, *self._shape)))
                held += [codes[place] == 0, values]
            commands.append((keys.raw(tag), ("XADD", keys.raw(tag), f"{moment * 1000 + 500}-{place}", "f", data)))
        for reply in self._cluster.gather(commands):
            if isinstance(reply, Exception):
                raise reply
        return int(cells * len(self._hosts))


def backlog(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """An archiver in this process takes what lies in the streams; its CPU time is without that of the feed."""
    with start_shards(2, place / "shards") as shards, open_store(url) as store:
        cluster, feeding = shards.connect(timeout=30.0), shards.connect(timeout=30.0)
        layout = read_layout(cluster)
        began = (int(time.time()) - options.ticks) // _MINUTE * _MINUTE - 2 * _MINUTE
        feed = Feed(feeding, options, began)
        leases = Leases(cluster, layout.tags, Holder(os.urandom(8).hex(), 60_000, "measured"))
        follower = Follower(
            cluster, layout, store, leases, TroubleLog(lambda line: print(line, file=sys.stderr)), Limits()
        )
        while len(follower.partitions) < layout.partitions:
            follower.turn()
        engine = make_engine(parse_url(url))
        made, fed, taking, server = 0, 0.0, 0.0, _server_seconds(engine)
        process, shard_seconds = time.process_time(), sum(map(usage.cpu_seconds, shards.pids))
        for tick in range(options.ticks):
            before = time.thread_time()
            made += feed.push(tick)
            fed += time.thread_time() - before
            taking += _take(follower, feeding, (began + tick - _AHEAD_SECONDS) * 1000)
        started = time.monotonic()
        while follower.counts.archived + follower.counts.gap < made:
            follower.turn()
            if time.monotonic() > started + 120:
                raise UnavailableError(f"{follower.counts} of {made} samples after two minutes")
        taking += time.monotonic() - started
        cpu = time.process_time() - process - fed
        server = _server_seconds(engine) - server
        counts, state = follower.counts, _state_bytes(engine)
        engine.dispose()
        shard_seconds = sum(map(usage.cpu_seconds, shards.pids)) - shard_seconds
        cluster.close()
        feeding.close()
    live_rate = options.hosts * options.entities * options.metrics
    return {
        "samples_made": made, "archived": counts.archived, "gap": counts.gap,
        "samples_per_second": round(made / taking), "times_live": round(made / taking / live_rate, 1),
        "archiver_us_per_sample": round(cpu / made * 1e6, 4), "server_us_per_sample": round(server / made * 1e6, 4),
        "archiver_cores_live": round(cpu / options.ticks, 4), "server_cores_live": round(server / options.ticks, 4),
        "shards_cores_live_with_feed": round(shard_seconds / options.ticks, 4),
        "state_bytes": state, "state_bytes_per_entity": round(state / options.hosts / options.entities, 1),
        "process_most_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "commits": follower.counters["commits"], "threads": threading.active_count(),
    }  # fmt: skip


# ---------------------------------------------------------------- kills


def kills(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """Archivers are killed at random moments; what is in the minutes then is compared with the frames."""
    random = np.random.default_rng(1)
    with start_shards(1, place / "shards") as shards:
        cluster = shards.connect(timeout=30.0)
        layout = read_layout(cluster)
        began = (int(time.time()) - options.ticks) // _MINUTE * _MINUTE - 2 * _MINUTE
        feed, made, between = Feed(cluster, options, began), 0, 0
        for kill in range(options.kills):
            for tick in range(options.ticks * kill // options.kills, options.ticks * (kill + 1) // options.kills):
                made += feed.push(tick)
            before = _commits(url)
            child = os.fork()
            if not child:
                _follow(shards.connect(timeout=30.0), layout, url, lambda _: False)
            time.sleep(float(random.uniform(0.05, 0.8)))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            between += _commits(url) != before
        archived = _follow(shards.connect(timeout=30.0), layout, url, lambda counts: sum(counts[:2]) >= made)
        cluster.close()
    wrong = _wrong(url, feed)
    if wrong:
        raise ShardpulseError(f"{len(wrong)} minutes are not those of each frame once: {wrong[:5]}")
    return {
        "kills": options.kills, "after_a_commit": between, "samples_made": made, "archived": archived.archived,
        "gap": archived.gap, "minutes_compared": len(feed.sums), "minutes_wrong": len(wrong),
    }  # fmt: skip


def _follow(cluster: Cluster, layout: Layout, url: str, done: Callable[[Counts], bool]) -> Counts:
    """An archiver until something holds of its books; those that are killed have each other's leases."""
    with open_store(url) as store:
        leases = Leases(cluster, layout.tags, Holder("0" * 16, 60_000, "killed"))
        follower = Follower(cluster, layout, store, leases, TroubleLog(lambda _: None), Limits(read_bytes=200_000))
        while not done(follower.counts):
            time.sleep(min(0.01, follower.turn()))
        counts = follower.counts
    cluster.close()
    return counts


def _commits(url: str) -> list[int]:
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        found = [int(row[0]) for row in connection.execute(text("SELECT commit_id FROM partitions ORDER BY partition"))]
    engine.dispose()
    return found


def _wrong(url: str, feed: Feed) -> list[tuple[int, int]]:
    """Hosts and minutes whose count, valid samples or mean are not those of the frames, each once."""
    left = dict(feed.sums)
    wrong = []
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        for row in writing.take(connection, "minutes", "TRUE" if engine.dialect.name == "postgresql" else "1"):
            one = records.minute_of(row)
            key = (one.series.host, one.minute)
            valid, sums = left.pop(key, np.zeros((2, 1, 1)))
            known = np.nan_to_num(one.values[Statistic.VALID])
            total = np.nan_to_num(one.values[Statistic.MEAN]) * known
            if known.shape != valid.shape or (known != valid).any() or not np.allclose(total, sums, rtol=1e-4):
                wrong.append(key)
        connection.rollback()
    engine.dispose()
    return wrong + list(left)


def _take(follower: Follower, feeding: Cluster, until: int) -> float:
    """Turn until everything up to a time has been read, and take that out of the streams; seconds."""
    began = time.monotonic()
    while min(parse(one.read)[0] for one in follower._followed.values()) < until:
        if follower.turn() > 0.0:
            break
    took = time.monotonic() - began
    feeding.gather([
        (keys.raw(one.tag), ("XTRIM", keys.raw(one.tag), "MINID", one.read)) for one in follower._followed.values()
    ])  # fmt: skip
    return took


def _state_bytes(engine: Any) -> int:
    with engine.connect() as connection:
        return int(connection.execute(text("SELECT sum(length(state)) FROM partitions")).scalar_one())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
