"""A filter worker: one loop over all of its partitions.

Each partition has a connection of its own that waits in XREAD BLOCK, so an idle pipeline costs
nothing and a lone frame is smoothed at once. Under load the worker lingers between two reads of
a partition, so that every round trip carries more frames.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from acquisition.errors import FrameError, PermissionRefused, ShardError, TemporaryError
from acquisition.link.cluster import Cluster, Layout
from acquisition.wire import keys
from filters import kernels
from filters.runtime.background_jobs import Background, Outcome
from filters.runtime.garbage import Sweeper
from filters.worker.batching import Item, Smoother, batches
from filters.worker.channel import BLOCK_MS, COMMIT, READ, TRIM, Channel, Moved, Overtaken
from filters.worker.fair_share import WaterLevel
from filters.worker.inputs.stage import InputsStage
from filters.worker.loader import Loader
from filters.worker.pace import Pace, together
from filters.worker.partition import Partition
from filters.worker.poller import Readiness
from filters.worker.rate_limited_log import Trouble
from filters.worker.record import RecordEncoder
from filters.worker.settings import FilterSettings
from filters.worker.shard_map import ShardMap
from filters.worker.speed import Speed

_RETRY = 0.2
_SLOW_RETRY = 2.0
_MOST_FRAMES = 2048  #: of one turn, some 70 ms: leases are renewed in time whatever waits
_ASLEEP = 0.5  #: a turn so long after the one before it: silence was ours


class Worker:
    """Smooths the frames of ``numbers`` (partitions; all by default) until told to stop.

    ``take`` and ``release`` change which partitions these are. ``report`` gets a line of text for
    everything that people should know about. A worker is of one thread.
    """

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        settings: FilterSettings,
        numbers: Iterable[int] | None = None,
        report: Callable[[str], None] = lambda text: print(f"shardpulse filter: {text}", file=sys.stderr, flush=True),
    ) -> None:
        self._trouble = trouble = Trouble(report)
        self._kernels = kernels.select(settings.kernels)
        self._smoother = Smoother(
            self._kernels, RecordEncoder(self._kernels, int(settings.expire_seconds)), settings.tau_seconds
        )
        self._inputs = InputsStage(settings, self._smoother.kernels)
        self._channels: dict[int, Channel] = {}
        self.readiness = Readiness()
        self._turned = time.monotonic()
        self._next_check = 0.0
        self._pace = Pace(settings.linger_seconds)
        self._speed = Speed()
        self._water_level = WaterLevel()
        self._counters = dict.fromkeys(("frames", "samples", "commits", "loads", "rejected", "overtaken"), 0)
        self.background = Background()
        self._loader = Loader(cluster, layout, settings, self._kernels, self.background)
        self.shards = ShardMap(cluster, layout, self.background, self._follow, lambda error: trouble.tell(str(error)))
        self.readiness.watch(self.background.fileno(), self.background.deliver)
        for number in range(layout.partitions) if numbers is None else numbers:
            self.take(number)

    @property
    def counters(self) -> dict[str, int]:
        """What was done since the start, by name."""
        return {**self._counters, "errors": self._trouble.count}

    @property
    def overtaken(self) -> int:
        """How often somebody else had committed."""
        return self._counters["overtaken"]

    # ---------------------------------------------------------------- partitions

    @property
    def partitions(self) -> set[int]:
        """The partitions that this worker smooths, and those that it is about to let go."""
        return set(self._channels)

    def take(self, number: int) -> None:
        """Begin to smooth a partition: its state is loaded in the background."""
        if number in self._channels:
            self._channels[number].leaving = False
        else:
            self._channels[number] = Channel(self._loader.empty(number))

    def release(self, number: int) -> None:
        """Let a partition go, at once or as soon as the commit that is under way is answered."""
        channel = self._channels.get(number)
        if channel is not None:
            channel.leaving = True
            if not channel.committing:
                self._let_go(channel)

    def _let_go(self, channel: Channel) -> None:
        self._drop(channel, None)
        del self._channels[channel.partition.number]

    # ---------------------------------------------------------------- the loop

    def run(self, stopped: Callable[[], bool], between: Callable[[], float] = lambda: 1.0) -> None:
        """Work until ``stopped()``; it and ``between`` are called before every turn of the loop, which
        waits at most as long as ``between`` says, in seconds."""
        sweeper = Sweeper()
        while not stopped():
            self.turn(between())
            sweeper.turn(time.monotonic())
        self.close()

    def close(self) -> None:
        """Close all connections; what was not committed will be read again by the next worker."""
        for channel in self._channels.values():
            self._drop(channel, None)
        self.shards.close()
        self.background.close()

    def turn(self, longest: float) -> None:
        """One turn of the loop, waiting at most ``longest`` seconds for something to do."""
        began = time.monotonic()
        wake = began + longest
        for channel in self._channels.values():
            if channel.due is not None:
                if channel.due <= began:
                    self._start(channel, began)
                if channel.due is not None and channel.due < wake:
                    wake = channel.due
        slept = time.monotonic()
        ready = self.readiness.wait(wake - slept)
        woke = time.monotonic()
        before = self._counters["samples"]
        worked: list[Channel] = []
        items = self._receive_all(ready.channels, worked)
        self._smooth(items)
        for channel in worked:
            self._guard(channel, self._commit)
        for action in ready.actions:
            action()
        ended = time.monotonic()
        self._notice_silence(ended)
        self._pace.note(ended - began, woke - slept)
        self._speed.note(self._counters["samples"] - before, ended - woke)
        states = (state for channel in self._channels.values() for state in channel.partition.states.values())
        self._water_level.measure(ended, self._pace.busy, self._counters["samples"], states)

    def _receive_all(self, channels: list[Channel], worked: list[Channel]) -> list[Item]:
        """What came, until it is enough for one turn: the rest stays readable."""
        items: list[Item] = []
        samples = seen = 0
        for channel in channels:
            self._guard(channel, self._receive, items, worked)
            samples += sum(item.frame.samples for item in items[seen:])
            seen = len(items)
            if seen >= _MOST_FRAMES or samples >= self._speed.turn_samples:
                break
        return items

    # ---------------------------------------------------------------- connecting and reading

    def _start(self, channel: Channel, now: float) -> None:
        if channel.connection is not None:
            self._guard(channel, self._read)
            return
        address = self.shards.where(channel.partition.number)
        if address is None:
            self.shards.doubt()
            channel.due = now + _RETRY
        else:
            self._loader.start(channel, address, lambda loaded, outcome: self._guard(loaded, self._adopt, outcome))

    def _adopt(self, channel: Channel, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            raise outcome
        partition, connection, damage = outcome
        for text in damage:
            self._trouble.tell(text)
        self._counters["loads"] += 1
        channel.adopt(partition, connection)
        self.readiness.add(connection.fileno(), channel)

    def _follow(self) -> None:
        """The map of slots has changed: partitions that moved are loaded from where they are now."""
        for channel in self._channels.values():
            address = self.shards.where(channel.partition.number)
            at = channel.connection.address if channel.connection is not None else channel.loading
            if address is not None and address != at:
                self._drop(channel, 0.0)

    def _notice_silence(self, now: float) -> None:
        """Leave shards that hang; after a sleep of our own, answers may be waiting that were not read yet."""
        slept, self._turned = now - self._turned > BLOCK_MS / 1000.0 + _ASLEEP, now
        if now < self._next_check and not slept:
            return
        self._next_check = now + _ASLEEP
        for channel in self._channels.values():
            if slept:
                channel.asked = now
            self._guard(channel, Channel.check_silence, now)

    def _read(self, channel: Channel) -> None:
        assert channel.connection is not None
        channel.connection.send(channel.partition.read_command(BLOCK_MS, channel.partition.most_entries))
        channel.expected.append((READ, 3))
        channel.due = None
        channel.asked = time.monotonic()

    def _receive(self, channel: Channel, items: list[Item], worked: list[Channel]) -> None:
        assert channel.connection is not None
        channel.replies += channel.connection.poll()
        channel.asked = time.monotonic()
        while channel.expected and len(channel.replies) >= channel.expected[0][1]:
            kind, count = channel.expected.popleft()
            replies, channel.replies = channel.replies[:count], channel.replies[count:]
            channel.check(kind, replies, channel.asked)
            if kind is READ:
                expired = channel.partition.expire(time.monotonic())
                if replies[2] is not None:
                    taken = channel.partition.take(replies[2][0][1])
                    items += [Item(channel.partition, state, frame) for state, frame in taken]
                    self._tell_rejected(channel.partition)
                if replies[2] is not None or expired:
                    worked.append(channel)
                else:
                    self._read(channel)
        if channel.leaving and not channel.committing and channel not in worked:
            self._let_go(channel)

    # ---------------------------------------------------------------- smoothing and committing

    def _smooth(self, items: list[Item]) -> None:
        for batch in batches(items):
            self._smoother.smooth(batch)
            self._inputs.advance(batch)
            self._counters["frames"] += len(batch)
            self._counters["samples"] += sum(item.frame.samples for item in batch)

    def _commit(self, channel: Channel) -> None:
        assert channel.connection is not None
        channel.partition.level = self._water_level.value
        channel.partition.most_bytes = self._speed.read_bytes
        pieces, replies = channel.partition.commit(channel.full(time.monotonic()))
        channel.expected.append((COMMIT, replies))
        trim = channel.partition.trim_command(time.time())
        if trim is not None:
            pieces.append(trim)
            channel.expected.append((TRIM, 1))
        linger = self._pace.linger()
        if not linger:
            pieces.append(channel.partition.read_command(BLOCK_MS, channel.partition.most_entries))
            channel.expected.append((READ, 3))
        channel.due = together(time.monotonic(), linger, channel.partition.number) if linger else None
        channel.connection.send(b"".join(pieces))
        self._counters["commits"] += 1

    # ---------------------------------------------------------------- trouble

    def _guard(self, channel: Channel, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(channel, *arguments)
        except Overtaken as error:
            self._counters["overtaken"] += 1
            self._drop(channel, _RETRY / 4)
            self._trouble.tell(f"{error}; loading the state of its partitions again")
        except Moved:  # in the order of things: shards are added, removed, and taken over from
            self._drop(channel, _RETRY / 4)
            self.shards.doubt()
        except PermissionRefused as error:
            self._drop(channel, _SLOW_RETRY)
            self._trouble.tell(str(error))
        except (ShardError, TemporaryError, FrameError) as error:
            self._drop(channel, _RETRY)
            self._trouble.tell(str(error))
            self.shards.doubt()

    def _drop(self, channel: Channel, retry: float | None) -> None:
        if channel.connection is not None:
            self.readiness.remove(channel.connection.fileno())
        channel.abandon(self._loader.empty(channel.partition.number))
        channel.due = None if retry is None else time.monotonic() + retry

    def _tell_rejected(self, partition: Partition) -> None:
        for reason, text in partition.reasons.items():
            self._trouble.tell(
                f"put an entry of {partition.raw_key} aside, see {keys.rejected(partition.tag)}: {text}", reason
            )
        partition.reasons.clear()
        self._counters["rejected"] += partition.rejected - partition.told
        partition.told = partition.rejected
