"""Dropping of old parts under load: its duration, and the waits it causes.

On a busy machine a reader waits for a core longer than for any lock. So the server itself logs each lock wait of a
millisecond or more (``log_lock_waits`` with ``client_min_messages = log``, settable by a superuser). Readers and
writers take no table lock that excludes other readers or writers, so a drop blocks everything that waits for a lock.
"""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import event, text

from experiments.archive_cost.writer import BEGAN, Writer
from filters.archive.database import retention
from filters.archive.database.store import Store, open_store
from filters.archive.minutes.values import DAY, Episode, Event

_NOW = BEGAN + 40 * DAY
_ROWS = 20_000  #: per day
_TURNS = 20  #: of each load before anything is dropped
_TELL = "SET deadlock_timeout = '1ms'; SET log_lock_waits = on; SET client_min_messages = log"
_ACQUIRED = re.compile(r"acquired \w+ on relation .* after ([\d.]+) ms")


class Waits:
    """``milliseconds`` a connection has waited for table locks; replaces psycopg2's list of notices, and is no list,
    since SQLAlchemy would empty one."""

    def __init__(self) -> None:
        self.milliseconds: list[float] = []

    def append(self, notice: str) -> None:
        """Add a notice of the server."""
        if acquired := _ACQUIRED.search(notice):
            self.milliseconds.append(float(acquired[1]))


class Load:
    """A thread that reads or writes episodes continuously; ``longest`` seconds of a statement, or of a commit."""

    def __init__(self, url: str, reads: bool) -> None:
        self.longest, self.turns, self.waits = 0.0, 0, Waits()
        self._store, self._reads = open_store(url), reads
        self._stop = threading.Event()
        event.listen(self._store._engine, "connect", self._connected)
        self._thread = ThreadPoolExecutor(1)
        self._work_done = self._thread.submit(self._work)

    def stop(self) -> None:
        """End after the current statement. Raises the error that ended it earlier."""
        self._stop.set()
        self._thread.shutdown()
        self._store.close()
        self._work_done.result()

    @property
    def ended(self) -> bool:
        """Whether it has ended with an error."""
        return self._work_done.done()

    def _connected(self, connection: Any, _: object) -> None:
        connection.cursor().execute(_TELL)
        connection.commit()
        connection.notices = self.waits

    def _work(self) -> None:
        writer, number = Writer(self._store, 3 + self._reads), 0
        while not self._stop.is_set():
            number += 1
            began = time.perf_counter()
            self._read() if self._reads else _write(writer, number)
            self.longest = max(self.longest, time.perf_counter() - began)
            self.turns = number

    def _read(self) -> None:
        with self._store._engine.connect() as connection:
            connection.execute(text(f"SELECT count(*) FROM episodes WHERE day >= {_NOW - 99 * DAY}")).all()


def _run_in(loads: Sequence[Load]) -> None:
    """Run until each load has a reliable duration of a statement while nothing is dropped."""
    while any(one.turns < _TURNS and not one.ended for one in loads):
        time.sleep(0.01)


def dropping(url: str, days: int = 6) -> dict[str, float]:
    """Parts of several days dropped one by one while two others read and write; milliseconds."""
    with open_store(url) as store:
        writer = Writer(store, 2)
        for day in range(days):
            start = _NOW - (100 - day) * DAY
            writer.write(episodes=tuple(_episode(1, n, start + n / 10) for n in range(_ROWS)))
        loads = [Load(url, reads) for reads in (True, False)]
        try:
            _run_in(loads)
            before = max(one.longest for one in loads)
            took = _drop(store, 10 * days)
        finally:
            for one in loads:
                one.stop()
    blocked = [milliseconds for one in loads for milliseconds in one.waits.milliseconds]
    return {
        "transactions": len(took), "median_ms": _ms(statistics.median(took)), "longest_ms": _ms(max(took)),
        "blocked_by_drops": len(blocked), "longest_blocked_ms": round(max(blocked, default=0.0), 1),
        "longest_statement_of_reader_ms": _ms(loads[0].longest), "longest_commit_of_writer_ms": _ms(loads[1].longest),
        "the_same_before_ms": _ms(before),
    }  # fmt: skip


def _drop(store: Store, turns: int) -> list[float]:
    """Durations in seconds of the transactions that removed something."""
    took = []
    for _ in range(turns):
        began = time.perf_counter()
        with store._engine.begin() as connection:
            removed = retention.apply(connection, "episodes", _NOW - 90 * DAY)
        if removed:
            took.append(time.perf_counter() - began)
        time.sleep(0.2)
    return took


def _write(writer: Writer, number: int) -> None:
    moment = _NOW + number
    writer.write(events=(Event(moment, "load"),), episodes=(_episode(2, number, moment),))


def _episode(host: int, entity: int, start: float) -> Episode:
    return Episode(host, 7, entity, "cpu_busy_ratio", 3, start, start + 1, 1, False, ())


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
