"""Ring of recent values of one (host, resource set): slots and updates.

Its layout is in ``acquisition.wire.records.recent``.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from acquisition.link.resp import pack
from acquisition.wire.records import recent as wire
from acquisition.wire.records.inputs import Floats
from acquisition.wire.records.recent import SLOT_DTYPE, Head
from filters.worker.inputs import growing
from filters.worker.inputs.plan import Plan
from filters.worker.inputs.rows import Stayed

Ids = npt.NDArray[np.uint64]
Slots = npt.NDArray[np.uint32]

_LONGER = 1.25  #: recent values live longer than records, as their time to live is renewed less often
_FREE, _TAKEN = -2, -1  #: in place of the step since which an entity has been gone
_ROUNDED = 4  #: the initial capacity is a multiple of it
_SPARE = 32  #: one slot in so many is free: else the first newcomer makes the shard rewrite the ring, a millisecond
_LEAST_GROWTH = 8
_FEW = 8  #: up to this many newcomers are searched one by one


class Ring:
    """``capacity``: number of slots, as in the header ``head``; ``rows_at``: start of the rows; ``row_prefix``:
    beginning of SETRANGE for this ring, up to its offset. ``interval`` is in seconds, and 0.0 while no data in
    the shard is ours: existing data is then overwritten. ``lives_until``: CLOCK_MONOTONIC by which its time to
    live must be renewed; ``unseeded``: it contains no averages yet."""

    __slots__ = (
        "_gone", "_host", "_key", "_plan", "_resource_set", "_slots", "_version", "capacity", "head",
        "interval", "lives_until", "row_prefix", "rows_at", "unseeded",
    )  # fmt: skip

    def __init__(self, key: str, host: int, resource_set: int, plan: Plan, version: int) -> None:
        self._key = key
        self._host = host
        self._resource_set = resource_set
        self._plan = plan
        self._version = version
        self.lives_until = 0.0
        self.unseeded = True
        self.row_prefix = f"*4\r\n$8\r\nSETRANGE\r\n${len(key)}\r\n{key}\r\n".encode()
        self._begin(0, 0.0)

    def _begin(self, capacity: int, interval: float) -> None:
        self.interval = interval
        self._slots = np.zeros(capacity, SLOT_DTYPE)
        self._gone = np.full(capacity, _FREE, np.int64)
        self._resize(capacity)

    def _resize(self, capacity: int) -> None:
        plan = self._plan
        made = wire.make_head(
            self._host, self._resource_set, self.interval, plan.names, len(plan.derived), capacity, plan.depth
        )
        self.capacity = capacity
        self.head = made._replace(version=self._version)
        self.rows_at = self.head.places.rows

    def restore(self, head: Head, slots: npt.NDArray[np.void], ids: Ids, step: int, also: growing.Also) -> Slots | None:
        """Continue with the ring in the shard, with the entities ``ids`` at its newest tick: returns their slots, None
        if one has none. When other entities vanished is unknown: it counts from ``step``."""
        self._begin(head.capacity, head.interval)
        self._slots[...] = slots
        self._gone[slots["id"] != 0] = step
        places = self._find(ids)
        if (places < 0).any():
            self._begin(0, 0.0)
            return None
        self._gone[places] = _TAKEN
        self.unseeded = False
        if head.version != self._version:
            also(pack(("SETRANGE", self._key, "0", wire.HEADER.pack(*self.head))))
        return places.astype(np.uint32)

    def place(self, ids: Ids, step: int, interval: float, also: growing.Also) -> Slots:
        """The slots of the entities of the tick ``step``; further commands for the shard are added to ``also``."""
        if self.interval != interval:
            return self._begin_with(ids, step, interval, also)
        places = self._find(ids)
        here = np.zeros(self.capacity, bool)
        here[places[places >= 0]] = True
        left = (self._gone == _TAKEN) & ~here
        self._gone[left] = step
        self._gone[here] = _TAKEN
        self._take_in(ids, places, step, also)
        return places.astype(np.uint32)

    def move(self, before: Slots, stayed: Stayed, ids: Ids, step: int, also: growing.Also) -> Slots:
        """The slots for a tick of this ring's interval that follows one with the slots ``before``, if the entities
        that stayed are known."""
        slots = np.empty(ids.size, np.uint32)
        for here, there in stayed.runs:
            slots[here] = before[there]
        self._gone[before[stayed.gone]] = step
        if stayed.come.size:
            newcomers = ids[stayed.come]
            places = self._find(newcomers)
            self._take_in(newcomers, places, step, also)
            slots[stayed.come] = places
        self._gone[slots] = _TAKEN
        return slots

    def _take_in(self, ids: Ids, places: npt.NDArray[np.int64], step: int, also: growing.Also) -> None:
        """Put the slots of newcomers into ``places``, where these are -1."""
        missing = places < 0
        if missing.any():
            newcomers, which = np.unique(ids[missing], return_inverse=True)
            added = self._add(newcomers, step, also)
            places[missing] = added[which]
            first, end = int(added[0]), int(added[-1]) + 1
            data = self._slots[first:end].tobytes()
            also(pack(("SETRANGE", self._key, str(self.head.slot_at(first)), data)))

    def _begin_with(self, ids: Ids, step: int, interval: float, also: growing.Also) -> Slots:
        """Start a new ring, with its first slots for its first entities."""
        newcomers, places = ids, np.arange(ids.size)
        if len(set(ids.tolist())) != ids.size:  # no probe sends such frames
            newcomers, places = np.unique(ids, return_inverse=True)
        size = newcomers.size
        spare = size // _SPARE
        self._begin(size if size == 1 else -(-(size + spare) // _ROUNDED) * _ROUNDED, interval)
        self._fill(slice(size), newcomers, step)
        self._create(also)
        return places.astype(np.uint32)

    def _find(self, ids: Ids) -> npt.NDArray[np.int64]:
        """The slots of entities, -1 for those without one."""
        if ids.size <= _FEW:
            theirs = (self._slots["id"] == ids[:, None]) & (self._gone != _FREE)
            return np.where(theirs.any(axis=1), theirs.argmax(axis=1), -1) if self.capacity else np.full(ids.size, -1)
        known = np.flatnonzero(self._gone != _FREE)
        known = known[np.argsort(self._slots["id"][known], kind="stable")]
        if not known.size:
            return np.full(ids.size, -1)
        sorted_ids = self._slots["id"][known]
        at = np.minimum(np.searchsorted(sorted_ids, ids), known.size - 1)
        return np.where(sorted_ids[at] == ids, known[at], -1)

    def _add(self, ids: Ids, step: int, also: growing.Also) -> npt.NDArray[np.intp]:
        """Assign free slots to newcomers; returns the slots."""
        self._gone[(self._gone >= 0) & (step - self._gone >= self._plan.depth)] = _FREE
        free = np.flatnonzero(self._gone == _FREE)
        if free.size < ids.size:
            self._grow(ids.size - free.size, also)
            free = np.flatnonzero(self._gone == _FREE)
        chosen = free[: ids.size]
        self._fill(chosen, ids, step)
        return chosen

    def _fill(self, chosen: npt.NDArray[np.intp] | slice, ids: Ids, step: int) -> None:
        self._slots["id"][chosen], self._slots["first"][chosen] = ids, step
        self._gone[chosen] = _TAKEN

    def _grow(self, missing: int, also: growing.Also) -> None:
        old = self.head
        more = max(missing, _LEAST_GROWTH, self.capacity // 4)
        self._slots = np.concatenate((self._slots, np.zeros(more, SLOT_DTYPE)))
        self._gone = np.concatenate((self._gone, np.full(more, _FREE, np.int64)))
        self._resize(self.capacity + more)
        also(growing.command(self._key, old, self.head, self._front()))

    def _front(self) -> bytes:
        return wire.encode_front(self.head, self._plan.taus, self._plan.names)

    def _create(self, also: growing.Also) -> None:
        """Create a ring with exactly the required bytes."""
        self.lives_until = 0.0
        self.unseeded = True
        also(pack(("DEL", self._key)))
        also(pack(("SETRANGE", self._key, str(self.head.places.size - 1), b"\0")))
        also(pack(("SETRANGE", self._key, "0", self._front() + self._slots.tobytes())))

    def row(self, step: int, data: bytes) -> bytes:
        """Command that writes the row of a step."""
        return pack(("SETRANGE", self._key, str(self.head.row_at(step)), data))

    def keep(self, step: int, means: Floats | None, slots: Slots, expire: float, also: growing.Also) -> None:
        """After a row: write the seed of averages ``means`` (C, E), if given, and renew an expiring time to live."""
        if means is not None:
            self.unseeded = False
            seed = np.full((self._plan.columns, self.capacity), np.nan, np.float32)
            seed[:, slots] = means
            also(pack(("SETRANGE", self._key, str(self.head.seed_at(step)), wire.encode_seed(step, seed))))
        if self.lives_until <= (now := time.monotonic()):
            self.lives_until = now + (_LONGER - 1.0) * expire
            also(pack(("EXPIRE", self._key, str(int(_LONGER * expire) + 1))))
