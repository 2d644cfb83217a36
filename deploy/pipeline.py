"""Probe, filter and freshness reader over running shards: started, watched, measured, stopped."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from children import Child, adopt_orphans, end_orphans
from usage import Meter

from acquisition.config import text as config_text
from acquisition.config.settings import HostModule, Probe, ProcessesModule, Settings
from acquisition.config.settings import Shards as ShardSettings
from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import read_layout
from acquisition.model.identity import host_id
from acquisition.shards import status as shard_status
from acquisition.shards.launch import Shards
from acquisition.shards.status import ShardStatus
from acquisition.snapshot import Snapshot, SnapshotReader, books
from acquisition.snapshot.books import Totals

SETTLE_SECONDS = 5.0


class Pipeline:
    """What runs beside the shards. A context manager that stops it all.

    ``snapshot``, ``shard_rows``, ``loads``, ``totals`` and ``account`` (the probe's of itself) are
    what the last ``look`` found.
    """

    def __init__(
        self, shards: Shards, directory: Path, interval: float, tools: bool, say: Callable[[str], None]
    ) -> None:
        self.shards = shards
        self._say = say
        self.settings = _settings(shards, directory, interval, tools)
        configuration = directory / "shardpulse.toml"
        configuration.write_text(config_text.render(self.settings))
        self.reader = SnapshotReader.from_settings(self.settings)
        self.snapshot: Snapshot | None = None
        self.shard_rows: list[ShardStatus] = []
        self.loads: dict[str, float] = {}
        self.totals: Totals | None = None
        self.account: dict[str, Any] = {}
        self.probe_usage, self.filter_usage = Meter(), Meter()
        self._shard_looked = 0.0
        self._freshness_log = directory / "freshness.jsonl"
        adopt_orphans()
        here = Path(__file__).parent
        addresses = [str(address) for address in shards.addresses]
        command = ["-m", "acquisition"]
        options = ["--config", str(configuration)]
        self.children: list[Child] = []
        for name, arguments, log in (
            ("filter", [*command, "filter", *options], directory / "filter.log"),
            ("freshness", [str(here / "freshness.py"), *addresses], self._freshness_log),
            ("probe", [*command, "probe", *options], directory / "probe.log"),
        ):
            self.children.append(Child(name, arguments, log, say))
        self.filter, self._freshness, self.probe = self.children
        self.started = time.monotonic()
        self.stopped: float | None = None
        self.first_value_seconds: float | None = None

    def look(self) -> None:
        """Supervise the children and read everything that the view shows. Shards that do not answer
        leave what was read before."""
        for child in self.children:
            child.supervise()
        for child in (self.filter, self.probe):
            for line in child.new_lines():
                self._say(line)
        self._revive_shards()
        end_orphans([child.pid for child in self.children] + self.shards.pids)
        self._look_at_shards()
        if self.has_values:
            self.probe_usage.look(self.probe.pid)
            self.filter_usage.look(self.filter.pid)
        with contextlib.suppress(ShardpulseError):
            self.snapshot = self.reader.latest()
            self._read_books()

    @property
    def has_values(self) -> bool:
        """Whether a smoothed value of this host can be read."""
        return self.snapshot is not None and any(block.has_values for block in self.snapshot.blocks)

    def settle(self) -> None:
        """Stop the probe, let the filter apply what it has sent, read everything for the last time."""
        self.look()
        self.probe.stop()
        self.stopped = time.monotonic()
        deadline = self.stopped + SETTLE_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(ShardpulseError):
                self._read_books()
                if self.totals is not None and self.totals.pending == 0:
                    break
            time.sleep(0.05)
        self._look_at_shards()

    def stop(self) -> None:
        """End all children."""
        for child in reversed(self.children):
            child.stop()
        end_orphans(self.shards.pids)
        self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def freshness(self) -> dict[str, Any]:
        """The newest figures of the freshness reader; None where nothing was measured."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            figures: dict[str, Any] = json.loads(self._freshness_log.read_text().splitlines()[-1])
            return figures
        return {"p50": None, "p99": None, "frames": 0}

    @property
    def seconds(self) -> float:
        """How long the probe has sampled."""
        return (self.stopped or time.monotonic()) - self.started

    def _read_books(self) -> None:
        cluster = self.reader.cluster
        layout = read_layout(cluster)
        self.totals = books.totals(books.read_books(cluster, layout))
        with contextlib.suppress(FrameError):  # damaged: the probe writes it anew
            status = books.read_status(cluster, layout, host_id(socket.gethostname()))
            self.account = status.rest if status is not None else self.account

    def _look_at_shards(self) -> None:
        now = time.monotonic()
        before = {row.address: row.cpu_seconds for row in self.shard_rows}
        self.shard_rows = shard_status.read(self.shards.shards, self.shards.layout.partitions, timeout=1.0)
        elapsed = now - self._shard_looked
        self.loads = {
            row.address: max(0.0, row.cpu_seconds - before[row.address]) / elapsed
            for row in self.shard_rows
            if before.get(row.address)
        }
        self._shard_looked = now

    def _revive_shards(self) -> None:
        for shard in self.shards.shards:
            if not shard.alive:
                self._say(f"shard {shard.address} has died: starting it again, empty")
        try:
            self.shards.revive()
        except ShardpulseError as error:
            self._say(f"{error}: trying again")


def _settings(shards: Shards, directory: Path, interval: float, tools: bool) -> Settings:
    return Settings(
        shards=ShardSettings(addresses=[str(address) for address in shards.addresses]),
        probe=Probe(
            interval_seconds=interval,
            ring_path=str(directory / "outbox.ring"),
            host=HostModule(source="vmstat" if tools else "procfs"),
            processes=ProcessesModule(source="pidstat" if tools else "procfs"),
        ),
    )
