"""Leases of one worker: renews, inspects, takes and releases them.

It does so four times per term.

One pipelined round trip per shard and renewal returns all that a worker needs: the holder of each
partition, the remaining time, and the live workers that reach it. ``filters.leases.ownership`` decides.
A lease only avoids duplicate work. The commit ensures that no stale state is written
(``filters.worker.partitions.partition``), so nothing here is unsafe when it is late or wrong.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol

from acquisition import log
from acquisition.errors import ShardpulseError
from acquisition.link.resp import Address, error_for
from acquisition.log import SHARDS, TroubleLog
from acquisition.wire import lease
from acquisition.wire.lease import Holder
from filters.leases import ownership
from filters.leases.ownership import Ownership
from filters.leases.scripts import Commands
from filters.worker.loop.lease_link import Answer, Link
from filters.worker.loop.shard_map import ShardMap

LOG = log.category("filter.leases")
_LOOK, _TAKE, _GIVE, _REMOVE = "look", "take", "give", "remove"
_RENEWALS = 4  #: per term
_HURRY = 5  #: factor by which a worker checks sooner while it waits for partitions given up by others
_TOGETHER = 0.05  #: answers of several shards are evaluated together if they arrive within this time
_LEAVING = 0.5
_MOVING = ("MOVED", "ASK", "TRYAGAIN")


def new_holder(lease_seconds: float, step: str = "", figures: str = "") -> Holder:
    """A unique identity; ``step``: method of computation, ``figures``: checksum of the computed figures."""
    called = "".join(f"{socket.gethostname()}:{os.getpid()}".split())[:200]
    return Holder(os.urandom(8).hex(), round(lease_seconds * 1000), called, step, figures)


#: Connects to a shard; the two functions are Link's ``answered`` and ``failed``.
OpenLink = Callable[[Address, Callable[[list[Answer]], None], Callable[[Address, ShardpulseError], None]], Link]


class Taker(Protocol):
    """User of the held leases: the worker."""

    @property
    def partitions(self) -> Set[int]:
        """Partitions in use, including those about to be released."""

    @property
    def overtaken(self) -> int:
        """Number of times that another worker was found on one of them."""

    def take(self, number: int) -> None:
        """Start working on a partition."""

    def release(self, number: int) -> None:
        """Release a partition as soon as possible."""


class Leases:
    """Makes ``worker`` take and release partitions, named by ``tags``; ``me``: its identity for other workers.

    ``log`` gets all messages for people.
    """

    def __init__(
        self,
        worker: Taker,
        shard_map: ShardMap,
        open_link: OpenLink,
        tags: Sequence[str],
        me: Holder,
        log: TroubleLog,
    ) -> None:
        self._worker = worker
        self._shard_map = shard_map
        self._open_link = open_link
        self._me = lease.encode(me)
        self._term = me.milliseconds / 1000.0
        self._commands = [Commands(tag, self._me, me.milliseconds) for tag in tags]
        self._log = log
        self._links: dict[Address, Link] = {}
        self._places: Mapping[Address, Sequence[int]] = {}
        self._known: dict[int, Ownership] = {}
        self._seen: dict[int, list[bytes]] = {}
        self._free_since: dict[int, float] = {}
        self._giving: set[int] = set()
        self._news = False
        self._next = 0.0
        self._wanting_since = math.inf
        self._overtaken = 0
        self._workers = 1

    def turn(self) -> float:
        """Do all due work; call it in every turn of the loop, and again after the returned number of seconds."""
        now = time.monotonic()
        overtaken = self._worker.overtaken != self._overtaken
        if now < self._next and not self._news and not overtaken:
            return self._next - now
        self._tend_links(now)
        self._give_back()
        if overtaken:
            self._overtaken = self._worker.overtaken
            self._look_soon(now)
        for address, numbers in self._places.items():
            link = self._links[address]
            if link.connected and not link.waiting and link.due <= now:
                link.renew_at(now + self._term / _RENEWALS)
                link.send(_LOOK, [(n, self._commands[n].look) for n in numbers])
        if self._news and not any(link.waiting and now - link.asked < _TOGETHER for link in self._links.values()):
            self._news = False
            self._decide(now)
        self._next = now + self._until_next(now)
        return self._next - now

    def leave(self) -> None:
        """Release all leases at once; waits at most half a second for shards that hang."""
        for address, numbers in self._places.items():
            if address in self._links:
                self._links[address].send(_GIVE, [(n, self._commands[n].leave) for n in numbers])
        self.close(_LEAVING)

    def close(self, patience: float = 0.0) -> None:
        """Close the connections; the leases stay until they expire."""
        deadline = time.monotonic() + patience
        for link in self._links.values():
            link.drain(deadline - time.monotonic())
        self._links.clear()

    # ---------------------------------------------------------------- links

    def _tend_links(self, now: float) -> None:
        if self._shard_map.places is not self._places:
            self._places = self._shard_map.places
            for address in self._places:
                if address not in self._links:
                    self._links[address] = self._open_link(address, self._answered, self._failed)
            for address in set(self._links).difference(self._places):
                self._links.pop(address).close()
        for link in self._links.values():
            link.check_silence(now, self._term / 2)
            link.connect(now)
        if not self._places or not all(link.connected for link in self._links.values()):
            self._shard_map.doubt()

    def _failed(self, address: Address, error: ShardpulseError) -> None:
        """Discard the last answers of a shard: others may take its partitions meanwhile."""
        if LOG.informs:
            LOG.info("cannot be renewed", shard=address, problem=error)
        self._log.fails(SHARDS, error)
        for number in [n for n in self._known if self._shard_map.where(n) == address]:
            del self._known[number]
            self._seen.pop(number, None)
            self._free_since.pop(number, None)
        self._giving &= self._worker.partitions

    def _look_soon(self, when: float) -> None:
        for link in self._links.values():
            link.hasten(when)

    def _until_next(self, now: float) -> float:
        waits = [_TOGETHER if link.waiting or not link.connected else link.due - now for link in self._links.values()]
        return max(0.0, min([*waits, self._term / _RENEWALS]))

    # ---------------------------------------------------------------- answers

    def _answered(self, answers: list[Answer]) -> None:
        now = time.monotonic()
        for number, asked, reply in answers:
            if isinstance(reply, Exception):
                self._refused(number, reply)
            elif asked is _GIVE:
                self._giving.discard(number)
                self._news = True
            elif asked is not _REMOVE:
                self._see(number, reply[1], reply[1:])
                if reply[1] and reply[1] != self._me:
                    self._look_soon(now + reply[0] / 1000.0 + 0.005)
        self._news = self._news or self._wanting_since < math.inf

    def _see(self, number: int, holder: bytes, workers: Sequence[bytes]) -> None:
        """Note the holder of a partition; ``workers`` may include the holder, and b""."""
        seen = [holder, *workers]
        if self._seen.get(number) == seen:
            self._news = self._news or not holder  # it may have been free for long enough now
            return
        self._news = True
        self._seen[number] = seen
        self._known[number] = Ownership(holder, frozenset(workers) - {b""})
        if holder:
            self._free_since.pop(number, None)
        else:
            self._free_since.setdefault(number, time.monotonic())

    def _refused(self, number: int, reply: Exception) -> None:
        text = str(reply)
        link = self._link(number)
        if "WRONGTYPE" in text and link is not None:
            self._log.tell(f"lease of partition {number} had a wrong type: removed")
            link.send(_REMOVE, [(number, self._commands[number].remove)])
            return
        if text.startswith("NOSCRIPT") and link is not None:
            link.close()
        self._shard_map.doubt()
        if not text.startswith(_MOVING):
            self._log.tell(f"leases: {error_for(reply)}", text.partition(" ")[0])

    def _link(self, number: int) -> Link | None:
        address = self._shard_map.where(number)
        return None if address is None else self._links.get(address)

    # ---------------------------------------------------------------- decisions

    def _decide(self, now: float) -> None:
        held = self._worker.partitions
        for number, known in self._known.items():
            if known.holder == self._me and number not in held and number not in self._giving:
                if LOG.informs:
                    LOG.info("takes", partition=number)
                self._worker.take(number)
            elif known.holder and known.holder != self._me and number in held:
                if LOG.informs:
                    LOG.info("has lost", partition=number, holder=known.holder)
                self._giving.discard(number)
                self._worker.release(number)
        waiting = [number for number, since in self._free_since.items() if now - since > self._term]
        changes = ownership.plan(self._me, len(self._commands), self._known, held, waiting)
        self._ask_for(changes.take)
        for number in changes.give:
            if LOG.informs:
                LOG.info("gives up", partition=number, workers=len(self._known[number].workers))
            self._worker.release(number)
            self._giving.add(number)
        self._give_back()
        self._hurry(changes.wanting and not changes.take, now)
        self._tell_workers()

    def _ask_for(self, numbers: list[int]) -> None:
        wanted: dict[Address, list[int]] = {}
        for number in numbers:
            address = self._shard_map.where(number)
            if address is not None:
                wanted.setdefault(address, []).append(number)
        for address, group in wanted.items():
            if address in self._links:
                self._links[address].send(_TAKE, [(n, self._commands[n].take) for n in group])

    def _give_back(self) -> None:
        """Release the leases of partitions no longer used by the worker."""
        for number in self._giving - self._worker.partitions:
            link, known = self._link(number), self._known.get(number)
            if link is not None and known is not None and known.holder == self._me:
                self._see(number, b"", [*known.workers])
                link.send(_GIVE, [(number, self._commands[number].give)])

    def _hurry(self, wanting: bool, now: float) -> None:
        """Check more often while others are about to give partitions up, which takes them one renewal."""
        self._wanting_since = min(self._wanting_since, now) if wanting else math.inf
        if now - self._wanting_since < self._term:
            self._look_soon(now + self._term / _RENEWALS / _HURRY)

    def _tell_workers(self) -> None:
        workers = len(frozenset().union(*(known.workers for known in self._known.values())))
        if workers != self._workers:
            self._workers = workers
            share = f"shared by {workers} workers:" if workers > 1 else "held by this worker alone:"
            self._log.report(f"{share} {len(self._commands)} partitions")
