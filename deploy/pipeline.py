"""Pipeline of the demo: probe, filter and freshness reader over the shards.

Starts, watches, measures and stops them.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from children import Child, adopt_orphans, end_orphans
from progress import Progress, TickCount
from usage import Meter

from acquisition.config import text as config_text
from acquisition.config.archive import Archive
from acquisition.config.probe import HostModule, Probe, ProcessesModule
from acquisition.config.settings import Settings
from acquisition.config.settings import Shards as ShardSettings
from acquisition.errors import ShardpulseError, UnavailableError
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.model.metric import HOST_SET
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.launch import Shards
from acquisition.shards.servers.status import ShardStatus
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.reconcile import books
from acquisition.snapshot.reconcile.books import Books, Totals
from filters import kernels
from filters.worker.step import native

if TYPE_CHECKING:
    from archived import Archived

_SETTLE_SECONDS = 2.5  #: without progress of the filter, after the probe has stopped
_SETTLE_AT_MOST = 10.0  #: with progress
_STOP_SECONDS = 1.0  #: for a part to stop on request, before it is killed
_REPLY_SECONDS = 1.0  #: for a reply of a shard on this machine
_REVIVE_SECONDS = 3.0
_ARCHIVE_SECONDS = 10.0  #: for the archive to close its minutes
_ARCHIVE_GRACE = 2.0
_EARLIER = 60.0  #: age of the first minute at the start of the demo
_QUIET_SECONDS = 4.0  #: without progress, besides two intervals: something is stuck


class Pipeline:
    """Processes of the demo besides the shards. A context manager that stops them all.

    ``snapshot``, ``shard_rows``, ``loads``, ``totals`` and ``account`` (the probe's own) are
    from the last ``look``. ``lost_at_worst``: the largest loss in any reading of the
    books; a loss lasts until the probe has resent the missing frames. ``problem``: reason for the
    failure of the last reading.
    """

    def __init__(
        self,
        shards: Shards,
        directory: Path,
        interval: float,
        tools: bool,
        say: Callable[[str], None],
        archive: str | None = None,
    ) -> None:
        self.shards = shards
        self._say = say
        self.settings = _settings(shards, directory, interval, tools, archive or str(directory / "archive.db"))
        configuration = directory / "shardpulse.toml"
        configuration.write_text(config_text.render(self.settings))
        self.reader = SnapshotReader(shards.connect(_REPLY_SECONDS))
        self.snapshot: Snapshot | None = None
        self.shard_rows: list[ShardStatus] = []
        self.loads: dict[str, float] = {}
        self.books: Books | None = None
        self.totals: Totals | None = None
        self.account: dict[str, Any] = {}
        self.lost_at_worst = self.frames_resent = 0
        self.problem = ""
        self.ticks = TickCount()
        self.shard_restarts: Counter[str] = Counter()
        self._deaths: set[tuple[int, int]] = set()
        self.step = native.chosen(kernels.select(self.settings.filter.kernels))  #: the filter runs in this environment
        self._progress = {"probe": Progress(), "filter": Progress()}
        self._told: dict[str, str] = {}
        self.probe_usage, self.filter_usage = Meter(), Meter()
        self._shard_looked = 0.0
        self._freshness_file = directory / "freshness.json"
        adopt_orphans()
        here = Path(__file__).parent
        command = ["-m", "acquisition"]
        options = ["--config", str(configuration)]
        self.children: list[Child] = []
        for name, arguments, log in (
            ("filter", [*command, "filter", *options], directory / "filter.log"),
            (
                "freshness",
                [str(here / "freshness.py"), str(self._freshness_file), str(shards.directory)],
                directory / "freshness.log",
            ),
            ("probe", [*command, "probe", *options], directory / "probe.log"),
        ):
            self.children.append(Child(name, arguments, log, say))
        self.filter, _, self.probe = self.children
        self._archiver = partial(
            Child, "archive", [*command, "archive", "run", "--finish", *options], directory / "archive.log", say
        )
        self._archive_stays = archive is not None
        self._archives = False  #: whether it was started: after the first value, so as not to delay that
        self.archived: Archived | None = None
        self.started = time.monotonic()
        self.stopped: float | None = None
        self.first_value_seconds: float | None = None

    def look(self) -> None:
        """Supervise the children and read everything in the view. Values of shards that do not answer
        are kept."""
        for child in self.children:
            child.supervise()
        for child in self.children:
            for line in child.new_lines():
                self._say(line)
        self._revive_shards()
        end_orphans([child.pid for child in self.children] + self.shards.pids)
        self._look_at_shards()
        if self.has_values:
            self.probe_usage.look(self.probe.pid)
            self.filter_usage.look(self.filter.pid)
            if not self._archives:
                self._archives = True
                self.children.append(self._archiver())
        if any(row.answering for row in self.shard_rows):
            with contextlib.suppress(ShardpulseError):
                self.snapshot = self.reader.latest()
                self._count_ticks()
        self.look_at_books()
        self._tell_what_is_stuck()

    @property
    def has_values(self) -> bool:
        """Whether a smoothed value of this host is readable."""
        return self.snapshot is not None and any(block.has_values for block in self.snapshot.blocks)

    def note_first_value(self, seconds: float) -> None:
        """Record the time from the start of the command to the first smoothed value."""
        self.first_value_seconds = round(seconds, 3)

    def settle(self) -> None:
        """Stop the probe, let filter and archive process all it has sent, and read everything a last time."""
        self._settle_books()
        if self._archives:
            archiver = self.children.pop()
            archiver.stop(_ARCHIVE_SECONDS)
            for line in archiver.new_lines():
                self._say(line)
            from archived import archived  # imports SQLAlchemy, not needed for the first value

            self.archived = archived(self.settings.archive, self._archive_stays, time.time() - self.seconds - _EARLIER)

    def _settle_books(self) -> None:
        self.probe_usage.look(self.probe.pid)
        self.filter_usage.look(self.filter.pid)
        self._look_at_shards()
        self.stopped = time.monotonic()
        self.probe.stop(_STOP_SECONDS)
        asked = moved = time.monotonic()
        applied = -1
        while time.monotonic() < min(moved + _SETTLE_SECONDS, asked + _SETTLE_AT_MOST):
            self.look_at_books()
            if not all(row.answering for row in self.shard_rows):
                return  # nothing will change
            if self.totals is not None and not self.problem:
                if self.totals.pending == 0:
                    break
                if self.totals.applied != applied:
                    applied, moved = self.totals.applied, time.monotonic()
            time.sleep(0.05)
        try:
            self.snapshot = self.reader.latest()
            self._count_ticks()
        except ShardpulseError as error:
            self.problem = str(error)

    def stop(self) -> None:
        """End all children and the shards, which have nothing to keep."""
        for child in self.children:
            child.ask_to_stop()
        deadline = time.monotonic() + _STOP_SECONDS
        for child in reversed(self.children):
            child.stop(deadline - time.monotonic())
        end_orphans(self.shards.pids)
        self.reader.close()
        self.shards.stop(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def freshness(self) -> dict[str, Any]:
        """Newest figures of the freshness reader; None if not measured."""
        with contextlib.suppress(OSError, ValueError):
            figures: dict[str, Any] = json.loads(self._freshness_file.read_text())
            return figures
        return {"p50": None, "p99": None, "frames": 0}

    @property
    def seconds(self) -> float:
        """Seconds of sampling by the probe."""
        return (self.stopped or time.monotonic()) - self.started

    @property
    def restarts(self) -> dict[str, int]:
        """Number of restarts of each part, including shards with restarts."""
        return {child.name: child.restarts for child in self.children} | dict(self.shard_restarts)

    @property
    def missed_ticks(self) -> int | None:
        """Ticks without a sample of the host, including those without a running probe; None before the first."""
        return self.ticks.missed((self.stopped or time.monotonic()), self.settings.probe.interval_seconds)

    def stuck(self, name: str) -> float | None:
        """Seconds without progress of the probe or the filter; None if it is not stuck."""
        if self.problem:
            return None  # unknown
        quiet = self._progress[name].quiet(self.stopped or time.monotonic())
        return quiet if quiet > _QUIET_SECONDS + 2 * self.settings.probe.interval_seconds else None

    def look_at_books(self) -> None:
        """Read only the books, which is cheap; they are complete only if all shards answer."""
        silent = [row.address for row in self.shard_rows if not row.answering]
        if silent:
            self.problem = f"{', '.join(silent)} did not answer"
            return
        try:
            self._read_books()
            self.problem = ""
        except ShardpulseError as error:
            self.problem = str(error)

    def _read_books(self) -> None:
        cluster = self.reader.cluster
        found = books.read(cluster, read_layout(cluster))
        if found.unreadable:
            raise UnavailableError("; ".join(dict.fromkeys(found.unreadable.values())))
        self.books, self.totals = found, books.totals(found.accounts)
        self.lost_at_worst = max(self.lost_at_worst, self.totals.lost + self.totals.missing)
        self.frames_resent = max(self.frames_resent, self.totals.resent_frames)
        now = time.monotonic()
        self._progress["probe"].note(self.totals.made, now)
        # an idle filter is not stuck
        self._progress["filter"].note((self.totals.applied, now if not self.totals.pending else 0), now)
        status = found.statuses.get(host_id(socket.gethostname()))
        self.account = status.rest if status is not None else self.account

    def _look_at_shards(self) -> None:
        now = time.monotonic()
        before = {row.address: row.cpu_seconds for row in self.shard_rows}
        shards = self.shards
        self.shard_rows = shard_status.read(shards.shards, shards.layout.partitions, _REPLY_SECONDS, shards.credentials)
        elapsed = now - self._shard_looked
        self.loads = {
            row.address: max(0.0, row.cpu_seconds - before[row.address]) / elapsed
            for row in self.shard_rows
            if before.get(row.address)
        }
        self._shard_looked = now

    def _revive_shards(self) -> None:
        for shard in self.shards.shards:
            if not shard.alive and (shard.pid, shard.started) not in self._deaths:
                self._deaths.add((shard.pid, shard.started))
                self.shard_restarts[f"shard {shard.address}"] += 1
                self._say(f"shard {shard.address} has died: starting it again, empty")
        try:
            self.shards.revive(_REVIVE_SECONDS)
        except ShardpulseError as error:
            self._say(f"{error}: trying again")

    def _count_ticks(self) -> None:
        assert self.snapshot is not None
        for block in self.snapshot.blocks:
            if block.resource_set == HOST_SET and block.position is not None:
                self.ticks.note(block.position.epoch, block.position.tick, block.position.frames, time.monotonic())

    def _tell_what_is_stuck(self) -> None:
        """Report once what has stopped working, and again when that changes."""
        for name, doing in (("probe", "sampled"), ("filter", "applied")):
            self._tell(name, f"the {name} has {doing} nothing for seconds: is it stopped?" if self.stuck(name) else "")
        for row in self.shard_rows:
            self._tell(row.address, "" if row.answering else f"shard {row.address} does not answer: {row.problem}")

    def _tell(self, about: str, text: str) -> None:
        if text and self._told.get(about) != text:
            self._say(text)
        self._told[about] = text


def _settings(shards: Shards, directory: Path, interval: float, tools: bool, archive: str) -> Settings:
    return Settings(
        archive=Archive(url=archive, grace_seconds=_ARCHIVE_GRACE),
        shards=ShardSettings(directory=str(shards.directory)),
        probe=Probe(
            interval_seconds=interval,
            ring_path=str(directory / "outbox.ring"),
            host=HostModule(source="vmstat" if tools else "procfs"),
            processes=ProcessesModule(source="pidstat" if tools else "procfs"),
        ),
    )
