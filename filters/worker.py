"""A filter worker: one loop over all of its partitions.

Each partition has a connection of its own that waits in XREAD BLOCK, so an idle pipeline costs
nothing and a lone frame is smoothed at once. Under load the worker lingers between two reads of
a partition, so that every round trip carries more frames.
"""

from __future__ import annotations

import select
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from acquisition.errors import FrameError, PermissionRefused, ShardError, ShardpulseError, TemporaryError
from acquisition.link.cluster import Cluster, Layout
from acquisition.link.resp import Connection, error_for
from filters import kernels
from filters.batching import Item, Smoother, batches
from filters.garbage import Sweeper
from filters.partition import Partition
from filters.record import Piece, RecordEncoder
from filters.settings import FilterSettings

_BLOCK_MS = 1000
_MOST_ENTRIES = 512
_RETRY = 0.2
_SLOW_RETRY = 2.0
_COMMIT, _TRIM, _READ = "commit", "trim", "read"


class Channel:
    """A partition's connection, what it is waiting for, and when it reads again."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.connection: Connection | None = None
        self.due: float | None = 0.0  #: when to connect or to read; None while a read waits
        self.expected: deque[tuple[str, int]] = deque()
        self.replies: list[Any] = []
        self.full = False  #: the shard answered OOM: trim harder before the next commit


class Worker:
    """Smooths the frames of ``numbers`` (partitions; all by default) until told to stop.

    ``report`` gets a line of text for everything that people should know about.
    """

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        settings: FilterSettings,
        numbers: Iterable[int] | None = None,
        report: Callable[[str], None] = lambda text: print(f"shardpulse filter: {text}", file=sys.stderr, flush=True),
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._report = report
        self._kernels = kernels.select(settings.kernels)
        self._smoother = Smoother(
            self._kernels, RecordEncoder(self._kernels, int(settings.expire_seconds)), settings.tau_seconds
        )
        chosen = range(layout.partitions) if numbers is None else numbers
        self._channels = [Channel(Partition(n, layout.tags[n], layout.partitions, settings)) for n in chosen]
        self._by_descriptor: dict[int, Channel] = {}
        self._poll = select.poll()
        self._busy = 0.0
        self._told: dict[str, float] = {}
        self.counters = {"frames": 0, "samples": 0, "commits": 0, "loads": 0, "rejected": 0, "errors": 0}

    def run(self, stopped: Callable[[], bool]) -> None:
        """Work until ``stopped()``; it is asked at least once a second."""
        sweeper = Sweeper()
        while not stopped():
            self.turn(1.0)
            sweeper.turn(time.monotonic())
        self.close()

    def close(self) -> None:
        """Close all connections; what was not committed will be read again by the next worker."""
        for channel in self._channels:
            self._drop(channel, None)

    def turn(self, longest: float) -> None:
        """One turn of the loop, waiting at most ``longest`` seconds for something to do."""
        began = time.monotonic()
        wake = began + longest
        for channel in self._channels:
            if channel.due is not None:
                if channel.due <= began:
                    self._start(channel, began)
                if channel.due is not None and channel.due < wake:
                    wake = channel.due
        slept = time.monotonic()
        ready = self._poll.poll(max(0.0, wake - slept) * 1000.0)
        woke = time.monotonic()
        worked: list[Channel] = []
        items: list[Item] = []
        for descriptor, _ in ready:
            channel = self._by_descriptor[descriptor]
            self._guard(channel, self._receive, items, worked)
        self._smooth(items)
        for channel in worked:
            self._guard(channel, self._commit)
        ended = time.monotonic()
        share = 1.0 - (woke - slept) / max(1e-6, ended - began)
        weight = min(1.0, (ended - began) / 0.5)
        self._busy += weight * (share - self._busy)

    # ---------------------------------------------------------------- connecting and reading

    def _start(self, channel: Channel, now: float) -> None:
        if channel.connection is None:
            self._guard(channel, self._connect)
        if channel.connection is not None and channel.due is not None:
            self._guard(channel, self._read)
        if channel.connection is None and (channel.due is None or channel.due <= now):
            channel.due = now + _RETRY

    def _connect(self, channel: Channel) -> None:
        partition = channel.partition
        connection = self._cluster.connect(self._cluster.owner(partition.raw_key))
        try:
            for damage in partition.load(connection, self._kernels):
                self._tell(damage)
            if channel.full:
                connection.call("XTRIM", partition.raw_key, "MINID", partition.cursor)
                channel.full = False
        except BaseException:
            connection.close()
            raise
        self.counters["loads"] += 1
        channel.connection = connection
        channel.expected.clear()
        channel.replies = []
        channel.due = 0.0
        self._by_descriptor[connection.fileno()] = channel
        self._poll.register(connection.fileno(), select.POLLIN)

    def _read(self, channel: Channel) -> None:
        assert channel.connection is not None
        channel.connection.send(channel.partition.read_command(_BLOCK_MS, _MOST_ENTRIES))
        channel.expected.append((_READ, 3))
        channel.due = None

    def _receive(self, channel: Channel, items: list[Item], worked: list[Channel]) -> None:
        assert channel.connection is not None
        channel.replies += channel.connection.poll()
        while channel.expected and len(channel.replies) >= channel.expected[0][1]:
            kind, count = channel.expected.popleft()
            replies, channel.replies = channel.replies[:count], channel.replies[count:]
            self._check(channel, kind, replies)
            if kind is _READ:
                expired = channel.partition.expire(time.monotonic())
                if replies[2] is not None:
                    taken = channel.partition.take(replies[2][0][1])
                    items += [Item(channel.partition, state, frame) for state, frame in taken]
                    self._tell_rejected(channel.partition)
                if replies[2] is not None or expired:
                    worked.append(channel)
                else:
                    self._read(channel)

    def _check(self, channel: Channel, kind: str, replies: list[Any]) -> None:
        """Raise what a shard refused; raise Overtaken when somebody else has committed."""
        for reply in (*replies, *(replies[-1] or ())) if kind is _COMMIT and isinstance(replies[-1], list) else replies:
            if isinstance(reply, Exception):
                if str(reply).startswith("MOVED"):
                    self._cluster.refresh()
                channel.full = channel.full or str(reply).startswith("OOM")
                raise error_for(reply, channel.connection.address if channel.connection else "")
        if kind is _COMMIT and replies[-1] is None:
            raise Overtaken("another worker has committed")
        if kind is _READ:
            found = b"" if replies[1] is None else replies[1].partition(b" ")[0]
            if found != channel.partition.commit_id:
                raise Overtaken("the shard holds another commit")

    # ---------------------------------------------------------------- smoothing and committing

    def _smooth(self, items: list[Item]) -> None:
        for batch in batches(items):
            self._smoother.smooth(batch)
            self.counters["frames"] += len(batch)
            self.counters["samples"] += sum(item.frame.samples for item in batch)

    def _commit(self, channel: Channel) -> None:
        assert channel.connection is not None
        pieces, replies = channel.partition.commit()
        channel.expected.append((_COMMIT, replies))
        trim = channel.partition.trim_command(time.time())
        if trim is not None:
            pieces.append(trim)
            channel.expected.append((_TRIM, 1))
        linger = self._linger()
        if not linger:
            pieces.append(channel.partition.read_command(_BLOCK_MS, _MOST_ENTRIES))
            channel.expected.append((_READ, 3))
        channel.due = _together(time.monotonic(), linger) if linger else None
        channel.connection.send(_joined(pieces))
        self.counters["commits"] += 1

    def _linger(self) -> float:
        """How long to let frames gather: nothing while there is CPU to spare, the full time when
        more than half of a core is in use."""
        return self._settings.linger_seconds * min(1.0, max(0.0, (self._busy - 0.15) / 0.35))

    # ---------------------------------------------------------------- trouble

    def _guard(self, channel: Channel, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(channel, *arguments)
        except Overtaken as error:
            self._drop(channel, 0.0)
            self._tell(f"{error}; loading the state of its partitions again")
        except PermissionRefused as error:
            self._drop(channel, _SLOW_RETRY)
            self._tell(str(error))
        except (ShardError, TemporaryError, FrameError) as error:
            self._drop(channel, _RETRY)
            self._tell(str(error))

    def _drop(self, channel: Channel, retry: float | None) -> None:
        if channel.connection is not None:
            self._poll.unregister(channel.connection.fileno())
            del self._by_descriptor[channel.connection.fileno()]
            channel.connection.close()
            channel.connection = None
        channel.partition.discard()
        channel.due = None if retry is None else time.monotonic() + retry

    def _tell_rejected(self, partition: Partition) -> None:
        for reason, text in partition.reasons.items():
            self._tell(f"put an entry of {partition.raw_key} aside, see rejected:{{{partition.tag}}}: {text}", reason)
        partition.reasons.clear()
        self.counters["rejected"] += partition.rejected - partition.told
        partition.told = partition.rejected

    def _tell(self, text: str, kind: str = "") -> None:
        """Report a kind of trouble (the text itself by default) at most once in ten seconds."""
        self.counters["errors"] += 1
        now = time.monotonic()
        if now - self._told.get(kind or text, -60.0) > 10.0:
            self._told[kind or text] = now
            self._report(text)


def _together(now: float, linger: float) -> float:
    """The next multiple of ``linger``: partitions that linger are read at the same moment, so that
    their frames share one batch."""
    return (now // linger + 1.0) * linger


class Overtaken(ShardpulseError):
    """The state in memory is not the one in the shard: load it again."""


def _joined(pieces: list[Piece]) -> bytes:
    return b"".join(pieces)
