"""Filter worker: one loop over all of its partitions.

Each partition has a connection of its own that waits in XREAD BLOCK, so an idle pipeline costs
nothing and a single frame is smoothed at once. Under load the worker lingers between two reads of
a partition, so that every round trip carries more frames.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from acquisition import log
from acquisition.errors import AdmissionError, FrameError, MovedError, PermissionRefused, ShardError, TemporaryError
from acquisition.link.resp import Address
from acquisition.log import SHARDS, TroubleLog
from acquisition.wire import keys
from filters.kernels import Kernel
from filters.runtime.background_jobs import BackgroundJobs, Outcome
from filters.runtime.memory import Sweeper
from filters.worker.compute.smoothing import Smoother
from filters.worker.loop.channel import BLOCK_SECONDS, Channel, Overtaken
from filters.worker.loop.fair_share import FairShare
from filters.worker.loop.isolation import Isolation
from filters.worker.loop.loader import Loader
from filters.worker.loop.pace import Pace
from filters.worker.loop.poller import Poller
from filters.worker.loop.shard_map import ShardMap
from filters.worker.partitions.batch import Accepted, Batch
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.rejections import unforeseen
from filters.worker.partitions.settings import FilterSettings

LOG = log.category("filter.worker")
_RETRY = 0.2
_SLOW_RETRY = 2.0
_MOST_FRAMES = 2048  #: of one turn, about 70 ms: leases are renewed in time whatever is waiting
_CALM = 1.0  #: time without an error after which a trouble is over
_CALM_WITHOUT = 5.0  #: the same for a worker without partitions, whose leases alone contact the shards
_ASLEEP = 0.5  #: pause between two turns that explains missing replies


class Worker:
    """Smooths the frames of partitions until stopped; ``take`` and ``release`` change the set of partitions.

    ``assembly`` builds it. ``poller``, ``background`` and ``shard_map`` may serve others as well, while
    this worker's loop runs: it waits for all of them, and closes them at the end. A worker belongs to one thread.
    """

    def __init__(
        self,
        settings: FilterSettings,
        kernels: tuple[Kernel, ...],
        loader: Loader,
        shard_map: ShardMap,
        poller: Poller,
        background: BackgroundJobs,
        log: TroubleLog,
    ) -> None:
        self._smoother = Smoother(settings, kernels)
        self._isolation = Isolation(self._smoother, log)
        self._loader = loader
        self._shard_map = shard_map
        self._poller = poller
        self._background = background
        self._log = log
        self._channels: dict[int, Channel] = {}
        self._places: Mapping[Address, Sequence[int]] = {}
        self._turned = time.monotonic()
        self._next_check = 0.0
        self._pace = Pace(settings.linger_seconds)
        self._fair_share = FairShare()
        self._counters = dict.fromkeys(("frames", "samples", "commits", "loads", "rejected", "overtaken"), 0)

    @property
    def counters(self) -> dict[str, int]:
        """Counts of the work since the start, by name."""
        return {**self._counters, "errors": self._log.count}

    @property
    def settled(self) -> bool:
        """Whether it has partitions, all with loaded states."""
        return bool(self._channels) and self._all_connected

    @property
    def _all_connected(self) -> bool:
        return all(channel.connected for channel in self._channels.values())

    @property
    def _is_behind(self) -> bool:
        """Whether more data is waiting than was read: there is no need to wait for more."""
        return any(channel.partition.stream.has_more for channel in self._channels.values())

    @property
    def trouble(self) -> str:
        """Description of trouble with some or all shards; "" if all answer."""
        return self._log.trouble

    @property
    def overtaken(self) -> int:
        """Number of times that another worker had committed."""
        return self._counters["overtaken"]

    # ---------------------------------------------------------------- partitions

    @property
    def partitions(self) -> set[int]:
        """Partitions smoothed by this worker, including those about to be released."""
        return set(self._channels)

    def take(self, number: int) -> None:
        """Start smoothing a partition: its state is loaded in the background."""
        if number in self._channels:
            self._channels[number].leave(False)
        else:
            self._channels[number] = Channel(self._loader.empty(number))

    def release(self, number: int) -> None:
        """Release a partition, at once or as soon as the commit in progress is answered."""
        channel = self._channels.get(number)
        if channel is not None:
            channel.leave()
            if channel.committing:
                self._poller.follow(channel)
            else:
                self._let_go(channel)

    def renew(self, number: int) -> None:
        """Read the stream of a partition from its beginning: it was removed and is another one now."""
        channel = self._channels.get(number)
        if channel is not None:
            channel.partition.renew()

    def _let_go(self, channel: Channel) -> None:
        self._drop(channel, None)
        del self._channels[channel.partition.number]

    # ---------------------------------------------------------------- the loop

    def run(self, stopped: Callable[[], bool], between: Callable[[], float] = lambda: 1.0) -> None:
        """Work until ``stopped()``; it and ``between`` are called before every turn of the loop, which
        waits at most for the seconds returned by ``between``."""
        sweeper = Sweeper()
        while not stopped():
            self.turn(between())
            sweeper.turn(time.monotonic())
        self.close()

    def close(self) -> None:
        """Close all connections and end the background jobs; the next worker reads uncommitted entries again."""
        for channel in self._channels.values():
            self._drop(channel, None)
        self._shard_map.close()
        self._background.close()

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
        ready = self._poller.wait(wake - slept, 0.0 if self._is_behind else self._pace.gather)
        woke = time.monotonic()
        for channel in ready.writable:
            self._guard(channel, self._go_on_sending)
        with ExitStack() as opened:
            worked = self._receive_all([channel for channel in ready.channels if channel.connected], opened)
            items = [item for batch in worked.values() for item in batch.accepted]
            self._smooth(items)
            for channel, batch in worked.items():
                if channel.connected:
                    self._guard(channel, self._commit, batch)
        samples = sum([item.samples for item in items])
        self._counters["frames"] += len(items)
        self._counters["samples"] += samples
        for action in ready.actions:
            action()
        if self._shard_map.places is not self._places:
            self._follow()
        ended = time.monotonic()
        if LOG.informs and items:
            oldest = min(item.state.track.wall for item in items)
            LOG.info(
                "turn", frames=len(items), samples=samples, partitions=len(worked),
                waited_seconds=woke - slept, seconds=ended - woke, age_seconds=time.time() - oldest,
            )  # fmt: skip
        self._look_after_shards(ended)
        self._pace.note_turn(ended - began, woke - slept)
        self._pace.note_work(samples, ended - woke)
        states = (state for channel in self._channels.values() for state in channel.partition.sets.states.values())
        self._fair_share.measure(ended, self._pace.busy, self._counters["samples"], states)

    def _receive_all(self, channels: list[Channel], opened: ExitStack) -> dict[Channel, Batch]:
        """Batches of received data, up to the limit of one turn: the rest stays readable."""
        worked: dict[Channel, Batch] = {}
        frames = samples = 0
        for channel in channels:
            self._guard(channel, self._receive, opened, worked)
            if channel in worked:
                accepted = worked[channel].accepted
                frames += len(accepted)
                samples += sum([item.samples for item in accepted])
            if frames >= _MOST_FRAMES or samples >= self._pace.turn_samples:
                break
        return worked

    # ---------------------------------------------------------------- connecting and reading

    def _start(self, channel: Channel, now: float) -> None:
        if channel.connected:
            self._guard(channel, self._read)
            return
        address = self._shard_map.where(channel.partition.number)
        if address is None:
            self._shard_map.doubt()
            channel.postpone(now + _RETRY)
        else:
            self._loader.start(channel, address, lambda loaded, outcome: self._guard(loaded, self._adopt, outcome))

    def _read(self, channel: Channel) -> None:
        channel.read()
        self._poller.follow(channel)

    def _adopt(self, channel: Channel, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            raise outcome
        partition, connection, damage = outcome
        if LOG.informs:
            LOG.info("loaded", partition=partition.number, shard=connection.address, sets=len(partition.sets.states))
        for text in damage:
            self._log.tell(text)
        self._counters["loads"] += 1
        channel.adopt(partition, connection)
        self._poller.add(channel)

    def _follow(self) -> None:
        """The map of slots has changed: partitions that moved are loaded from their new place."""
        self._places = self._shard_map.places
        for channel in self._channels.values():
            address = self._shard_map.where(channel.partition.number)
            if address is not None and address != channel.address:
                self._drop(channel, 0.0)

    def _look_after_shards(self, now: float) -> None:
        """Twice a second: read the map of slots if in doubt, and disconnect shards that hang; after a sleep of our own,
        unread answers may be waiting."""
        slept, self._turned = now - self._turned > BLOCK_SECONDS + _ASLEEP, now
        if now < self._next_check and not slept:
            return
        self._next_check = now + _ASLEEP
        self._shard_map.look()
        for channel in self._channels.values():
            if slept:
                channel.excuse_silence(now)
            self._guard(channel, Channel.check_silence, now)
        if self._log.calm(SHARDS, _CALM if self._channels else _CALM_WITHOUT) and self._all_connected:
            self._log.over(SHARDS, f"shards are responding again: smoothing {len(self._channels)} partitions")

    def _receive(self, channel: Channel, opened: ExitStack, worked: dict[Channel, Batch]) -> None:
        entries = channel.receive()
        if entries is not None:
            partition = channel.partition
            expired = partition.expire(channel.asked)
            if entries or expired:
                worked[channel] = opened.enter_context(partition.batch(entries, self._pace.read_bytes))
            else:
                self._read(channel)
        if channel.leaving and not channel.committing and channel not in worked:
            self._let_go(channel)

    # ---------------------------------------------------------------- smoothing and committing

    def _smooth(self, items: list[Accepted]) -> None:
        if self._turned < self._isolation.careful_until:
            self._isolation.smooth_each(items)
            return
        try:
            self._smoother.smooth(items)
        except Exception as error:  # of any kind: no frame from outside may end a worker
            for number in self._isolation.begin(items, error, self._turned):
                self._drop(self._channels[number], 0.0)

    def _commit(self, channel: Channel, batch: Batch) -> None:
        rejections = channel.partition.rejections
        if rejections.count != rejections.reported:
            self._tell_rejected(channel.partition)
        channel.commit(batch, self._fair_share.rate, self._pace.linger)
        self._poller.follow(channel)
        self._counters["commits"] += 1

    def _go_on_sending(self, channel: Channel) -> None:
        channel.go_on_sending()
        self._poller.follow(channel)

    # ---------------------------------------------------------------- what goes wrong

    def _guard(self, channel: Channel, action: Callable[..., None], *arguments: Any) -> None:
        try:
            action(channel, *arguments)
        except Overtaken as error:
            self._counters["overtaken"] += 1
            self._drop(channel, _RETRY / 4)
            self._log.tell(f"{error}; reloading the state of its partitions")
        except MovedError:  # normal: shards are added, removed, and taken over
            self._drop(channel, _RETRY / 4)
            self._shard_map.doubt()
        except (PermissionRefused, AdmissionError) as error:
            self._drop(channel, _SLOW_RETRY)
            self._log.fails(SHARDS, error)
        except FrameError as error:
            self._drop(channel, _RETRY)
            self._log.tell(str(error))
            self._shard_map.doubt()
        except (ShardError, TemporaryError) as error:
            self._drop(channel, _RETRY)
            self._log.fails(SHARDS, error)
            self._shard_map.doubt()
        except Exception as error:  # of any kind: the other partitions must not be affected
            self._drop(channel, _SLOW_RETRY)
            name = keys.raw(channel.partition.tag)
            self._log.tell(f"{name}: {unforeseen(error)}", name)

    def _drop(self, channel: Channel, retry: float | None) -> None:
        if channel.connected:
            if LOG.informs:
                LOG.info("drops", partition=channel.partition.number, shard=channel.address, retry_seconds=retry)
            self._poller.remove(channel.fileno())
        due = None if retry is None else time.monotonic() + retry
        channel.abandon(self._loader.empty(channel.partition.number), due)

    def _tell_rejected(self, partition: Partition) -> None:
        entries, reasons = partition.rejections.news()
        self._counters["rejected"] += entries
        for reason, (entry, text) in reasons.items():
            raw, kept = keys.raw(partition.tag), keys.rejected(partition.tag)
            if LOG.informs:
                LOG.info("rejected", partition=partition.number, entry=entry, reason=reason, entries=entries)
            self._log.tell(f"rejected entry {entry} of {raw} (details in {kept}): {text}", reason)
