"""Partition in a filter worker: what it has read, applied and committed.

A commit is one transaction: smoothed records, applied positions, names, rejected entries,
and ``commit:{tag}`` with a fresh random id and the cursor. The worker WATCHes that key and
reads it back before every read of the stream: when the id is not its own last one, somebody
else has committed (or the shard came back empty), and state and cursor are loaded again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable

from acquisition.wire.position import Commit
from acquisition.wire.seen import Seen
from filters.worker.partitions.batch import Batch
from filters.worker.partitions.commits import CommitEncoder, Sent
from filters.worker.partitions.intake import Intake
from filters.worker.partitions.raw_stream import MOST_BYTES, START, Entries, RawStream, after
from filters.worker.partitions.rejections import Rejections
from filters.worker.partitions.resource_sets import ResourceSets
from filters.worker.partitions.settings import FilterSettings
from filters.worker.step.native import Step

_OPEN = b"open"  #: an id that no commit has, from the opening of a batch until its commit


class Partition:
    """Owner of the parts of a partition, each of which has one job.

    ``commit_id`` is empty when nothing was ever committed.
    """

    def __init__(
        self,
        number: int,
        tag: str,
        partitions: int,
        settings: FilterSettings,
        step: Step | None = None,
    ) -> None:
        self.number = number
        self.tag = tag
        self.settings = settings
        self.commit_id = b""
        self._pending: list[bytes] = []  #: commands that the next batch begins with
        self.stream = RawStream(tag, settings)
        self.sets = ResourceSets(number, tag, partitions, settings)
        self.rejections = Rejections(tag)
        self._intake = Intake(self.sets, settings, step)
        self._encoder = CommitEncoder(tag, step)
        self._renewed = False  #: whether the stream is another one, which no commit says yet

    def resume(self, commit_id: bytes, cursor: bytes = START, rejected: int = 0) -> None:
        """Go on behind a commit that this or another worker made."""
        self.commit_id = commit_id
        self.stream.resume(cursor)
        self._intake.resume(cursor)
        self.rejections.resume(rejected)

    def renew(self) -> None:
        """The stream was read to its end and removed (filters.worker.loop.guard): go on at its beginning."""
        self.stream.renew()
        self._renewed = True

    def batch(self, entries: Entries, most_bytes: int = MOST_BYTES) -> Batch:
        """Take the entries of one read in a batch, which may be committed until it is left; see RawStream.advance for
        ``most_bytes``.

        A batch that is left without a commit is discarded as a whole, and the partition with it: its states have moved
        on, so its next read is refused and it is loaded again.
        """
        batch = Batch(self.number, self.rejections, self.commit_id, entries, self._pending)
        self.commit_id, self._pending = _OPEN, []
        if entries:
            size = self._intake.take(batch)
            self.stream.advance(entries, size, self.sets.sizes, most_bytes)
        return batch

    def commit(self, batch: Batch, fair_share: float = 0.0, full: bool = False) -> Sent:
        """The commit of a batch: a transaction, or for a shard that is ``full`` a script that gives its entries up
        first.

        ``fair_share`` in samples/s (0: none) is the limit above which probes shed (filters.worker.loop.fair_share).
        """
        self.commit_id = os.urandom(8).hex().encode()
        share = max(1, int(fair_share)) if fair_share else 0
        new = Commit(self.commit_id, self.stream.cursor, self.rejections.count, share)
        self._renewed = False
        if not full:
            return self._encoder.transaction(batch, new)
        self.stream.retention.kept.clear()
        return self._encoder.script(batch, new, after(new.cursor))

    def expire(self, now: float) -> bool:
        """Forget hosts that have sent this worker nothing for ``expire_seconds``; true when there is to be a commit for
        that, or because there has never been one. ``now`` is monotonic: no host's clock decides."""
        if not self.commit_id or self._renewed:  # so that it is noticed when the shard loses what little it has
            return True
        if now < self.sets.expire_at:
            return False
        commands = self.sets.expire(now)
        self._pending += commands
        return bool(commands)

    def miss(self, hosts: Iterable[Seen]) -> None:
        """Put hosts on the roster that this partition held before its shard came back empty: until they come again."""
        self._pending += self.sets.dormant.miss(hosts, time.time())

    def also(self, command: bytes) -> None:
        """Begin the next batch with a packed command of one of the partition's keys."""
        self._pending.append(command)
