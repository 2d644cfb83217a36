"""Writer bench: a writer and a filter worker on real shards, turned by hand."""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable
from typing import Any

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.model.metric import GAUGE, Metric, resource_set_id, schema_hash
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.books import Account
from acquisition.wire import keys
from acquisition.wire.frame import Samples
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.signature import Verifier
from acquisition.wire.table import Entity, Table
from filters.worker.loop.assembly import lone_worker
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import position_of
from tests.support.processes import slept
from tests.support.waiting import PATIENCE, eventually

HOST = 0xABCDEF0123456789
METRICS = (Metric("cpu_ratio", "ratio", GAUGE, 0.0, 1.0, "load"), Metric("memory_bytes", "bytes", GAUGE, 0.0, 1e15, ""))
SET = resource_set_id("host")
OTHER_SET = resource_set_id("processes")


def table(name: str = "host", complete: bool = True) -> Table:
    entity = Entity(1, "host", "alpha", "boot", "alpha")
    return Table("alpha", name, 1.0, "test", complete, METRICS, (entity,))


class Pipeline:
    """One host's writer, and its filter worker once ``start_filter`` was called."""

    def __init__(
        self,
        cluster: Cluster,
        seeds: list[Address],
        outbox: Outbox | None = None,
        credentials: Credentials | None = None,
        position_interval: float = 0.1,
        timeout: float = PATIENCE,
        host: int = HOST,
    ) -> None:
        self.cluster = cluster
        self.host = host
        self.layout: Layout = read_layout(cluster)
        self.tag = self.layout.tag_of(host)
        self.outbox = outbox if outbox is not None else Outbox(None)
        self.writer = Writer(
            host, "alpha", seeds, credentials, self.outbox, position_interval=position_interval, timeout=timeout
        )
        self.worker: Worker | None = None
        self.said: list[str] = []
        self.tick = 0
        self.slowest = 0.0

    def start_filter(self, expire_seconds: float = 600.0, verifier: Verifier | None = None) -> Worker:
        number = keys.partition_of(self.host, self.layout.partitions)
        settings = FilterSettings(expire_seconds=expire_seconds, verifier=verifier)
        self.worker = lone_worker(self.cluster, self.layout, settings, [number], report=self.said.append)
        return self.worker

    def stop_filter(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None

    def close(self) -> None:
        self.stop_filter()
        self.writer.close()

    def offer(self, count: int = 1, resource_set: int = SET, entities: int = 1) -> int:
        """Offer frames of ``entities`` x 2 samples, with a table whenever the writer wants one."""
        sequence = 0
        for _ in range(count):
            self.tick += 1
            now = time.time()
            if self.writer.wants_table(resource_set):
                name = "host" if resource_set == SET else "processes"
                self.writer.offer_table(table(name), self.tick, now, float(self.tick))
            sequence = self.writer.offer(
                Samples(
                    resource_set,
                    schema_hash(METRICS),
                    entities,
                    2,
                    1.0,
                    self.tick,
                    now,
                    float(self.tick),
                    struct.pack(f"<{entities}Q", *range(1, entities + 1)),
                    struct.pack(f"<{2 * entities}f", *[0.5] * (2 * entities)),
                )
            )
        return sequence

    def turn(self) -> None:
        now, before = time.monotonic(), slept()
        due = self.writer.service(now)
        self.slowest = max(self.slowest, slept() - before)
        assert due > now - 10.0
        if self.worker is not None:
            self.worker.turn(0.005)
        poll = select.poll()
        descriptor, events, _ = self.writer.waits_for
        if descriptor >= 0:
            poll.register(descriptor, events)
        poll.poll(2)

    def turn_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()

    def turn_until(self, done: Callable[[], Any], seconds: float = PATIENCE) -> None:
        eventually(
            done,
            seconds,
            meanwhile=self.turn,
            says=lambda: f"not in time: {self.writer.account()} {self.said}",
        )

    def position(self, resource_set: int = SET) -> Position | None:
        return position_of(self.cluster, self.host, resource_set)

    def is_applied(self, resource_set: int = SET) -> bool:
        """Whether the filter has applied the newest frame that was offered."""
        found = self.position(resource_set)
        window = self.outbox.windows[resource_set]
        return found is not None and found.epoch == window.epoch and found.sequence == window.last

    def account(self, resource_set: int = SET) -> Account:
        rows = books.read_books(self.cluster, self.layout)
        return next(row for row in rows if row.host == self.host and row.resource_set == resource_set)

    def assert_everything_applied_once(self, resource_set: int = SET) -> Account:
        """Wait for a status record of the end, then compare the books with what was offered."""
        made = self.outbox.windows[resource_set].made
        self.turn_until(lambda: self.account(resource_set).made == made)
        account = self.account(resource_set)
        assert (account.lost, account.duplicated, account.pending) == (0, 0, 0), account
        assert account.before + account.applied == made
        return account
