"""Archive scene: recent streams in real shards, an archiver, its database."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from sqlalchemy import text

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import parse_address
from acquisition.log import TroubleLog
from acquisition.model.codes import RANGE
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.lease import Holder
from filters.archive.database import records, writing
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.store import Store, open_store
from filters.archive.following.follower import Follower, Limits
from filters.archive.following.leases import Leases
from filters.archive.following.partition import Rules
from filters.archive.minutes.values import Statistic
from tests.support.archived import Kept, Rows, assert_equal, reference
from tests.support.waiting import eventually

SET, METRICS, ENTITIES = 3, 2, 2


def frame(host: int, sequence: int, tick: int, epoch: int = 1) -> Frame:
    """Frame ``sequence`` of a host; what it holds follows from its number."""
    rng = np.random.default_rng([host, epoch, sequence])
    values = rng.normal(50.0, 20.0, (ENTITIES, METRICS)).astype("<f4")
    codes = np.where(rng.random(values.shape) < 0.1, RANGE, 0).astype(np.uint8)
    made = (sequence - 1) * values.size
    ids = np.arange(1, ENTITIES + 1, dtype="<u8") + host * 100
    return Frame(
        wire.KIND_SAMPLES, 99, host, SET, ENTITIES, METRICS, 1.0, epoch, sequence, 1, made, tick, float(tick),
        float(tick), ids.tobytes(), values.tobytes(), codes.tobytes() if codes.any() else b"",
    )  # fmt: skip


class Streams:
    """Frames of some hosts, one a second, whose last one is two minutes old: all of their minutes are over."""

    def __init__(self, cluster: Cluster, hosts: Sequence[int] = (7, 8, 71), seconds: int = 400) -> None:
        self.cluster = cluster
        self.hosts = hosts
        self.began = int(time.time()) - 120 - seconds
        self.frames = {host: [frame(host, n, self.began + n) for n in range(1, seconds + 1)] for host in hosts}

    def push(self, first: int = 0, last: int | None = None, later: float = 0.0) -> None:
        """Into the streams, with the ids of their time, or of so many seconds ``later``."""
        chosen = [one for frames in self.frames.values() for one in frames[first:last]]
        commands = []
        for one in sorted(chosen, key=lambda one: (one.tick, one.host)):
            name = keys.raw(self.tag(one.host))
            entry = f"{round((one.tick + later) * 1000) + 500}-{one.host}"
            commands.append((name, ("XADD", name, entry, "f", wire.encode(one))))
        for reply in self.cluster.gather(commands):
            assert isinstance(reply, bytes), reply

    def tag(self, host: int) -> str:
        return keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(host, keys.DEFAULT_PARTITIONS)]

    @property
    def samples(self) -> int:
        return sum(one.samples for frames in self.frames.values() for one in frames)

    def assert_archived(self, url: str) -> None:
        """The rows are those of each frame once."""
        assert_equal(found_in(url), reference([one for frames in self.frames.values() for one in frames]))


def found_in(url: str) -> Rows:
    """The minutes of a database, as the reference has them."""
    rows = Rows()
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        for row in writing.take(connection, "minutes", "TRUE" if "postgres" in url else "1"):
            matrix = records.minute_of(row)
            for place, entity in enumerate(matrix.ids.tolist()):
                for column in range(matrix.values.shape[2]):
                    rows.cells[(matrix.series, matrix.minute, entity, column)] = _kept(
                        matrix.values[:, place, column], matrix.tick
                    )
        connection.rollback()
    engine.dispose()
    return rows


def _kept(planes: np.ndarray, tick: int) -> Kept:
    values = [float(value) for value in planes]
    squares = values[Statistic.DEVIATION] ** 2 * values[Statistic.VALID]
    return Kept(
        values[Statistic.COUNT], values[Statistic.VALID], values[Statistic.MEAN], squares, values[Statistic.LOW],
        values[Statistic.HIGH], values[Statistic.LAST], tick,
    )  # fmt: skip


def episodes_in(url: str) -> tuple[int, int]:
    """How many episodes there are, of how many samples."""
    engine = make_engine(parse_url(url))
    with engine.connect() as connection:
        count, samples = connection.execute(text("SELECT count(*), sum(samples) FROM episodes")).one()
    engine.dispose()
    return count, int(samples or 0)


def archiver(
    cluster: Cluster,
    store: Store,
    name: str = "",
    term: float = 1.0,
    read_bytes: int = 8 << 20,
    said: Callable[[str], None] = lambda _: None,
    grace: float = 5.0,
) -> Follower:
    """An archiver in this process, to be turned by hand; those of one ``name`` have each other's leases."""
    layout = read_layout(cluster)
    number = f"{sum(name.encode()):016x}" if name else os.urandom(8).hex()
    leases = Leases(cluster, layout.tags, Holder(number, round(term * 1000), name or "-"))
    return Follower(cluster, layout, store, leases, TroubleLog(said), Limits(Rules(grace), read_bytes=read_bytes))


def turn_until(follower: Follower, done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Turn it until something holds."""
    eventually(done, seconds, meanwhile=lambda: (follower.turn(), time.sleep(0.005)))


def main(url: str, addresses: str, kills: int, seed: int) -> None:
    """Start an archiver again and again and kill it with -9 at random moments, in a fork: no imports are waited for."""
    rng = random.Random(seed)
    seeds = [parse_address(one) for one in addresses.split(",")]
    for _ in range(kills):
        pid = os.fork()
        if not pid:
            follower = archiver(Cluster(seeds), open_store(url), "killed", 60.0, read_bytes=20_000)
            while True:
                follower.turn()
        time.sleep(rng.uniform(0.01, 0.25))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
