"""Prefetching: who reads again and again asks for the records together with the positions, and waits once, not twice.

Which records a coherent reading wants follows from the members, their intervals and the clock; only the positions
say for certain who the members are. So the question of the last reading is asked again, for the tick that is due now,
behind the positions in the same pipeline, and an answer counts only for a member and a slot that the positions then
ask for. Each shard answers in order: a record is never older than the position that it is judged by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from acquisition.model import ticks
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.shard_reading import Command, Member

#: A slot, and what the shards have there.
Slotted = tuple[int, bytes | None]
#: A member and the seconds between two of its ticks.
Paced = tuple[Member, float]


class Prefetch:
    """What the last reading asked for. ``whose`` tells questions apart: another one is not asked early."""

    def __init__(self) -> None:
        self._whose: object = None
        self._paced: Sequence[Paced] = ()
        self._intervals: tuple[float, ...] = ()
        self._asked: list[tuple[Member, int]] = []
        self._slots: tuple[int, ...] = ()
        self._commands: dict[tuple[int, ...], list[Command]] = {}

    def commands(self, whose: object, due: Due) -> list[Command]:
        """One command for each partition; none where the last reading was another question."""
        self._asked = []
        if not self._paced or whose is not self._whose:
            return []
        slots = tuple(ticks.slot_of(due.tick(interval), due.keep_ticks) for interval in self._intervals)
        place = dict(zip(self._intervals, slots, strict=True))
        self._asked = [(member, place[interval]) for member, interval in self._paced]
        self._slots = slots
        if slots not in self._commands:
            self._commands[slots] = list(_mget(self._asked))
        return self._commands[slots]

    def answers(self, replies: Sequence[Any]) -> Mapping[str, Slotted]:
        """What was answered, by the prefix of the member; a partition on its way, or on a shard that is down, is
        left out."""
        found: dict[str, Slotted] = {}
        at = 0
        for (_, command), reply in zip(self._commands[self._slots] if self._asked else (), replies, strict=True):
            part = self._asked[at : at + len(command) - 1]
            at += len(part)
            if isinstance(reply, list):
                for (member, slot), value in zip(part, reply, strict=True):
                    found[member.prefix] = (slot, value)
        return found

    def remember(self, whose: object, paced: list[Paced]) -> None:
        """What this reading has asked for; members of a partition are adjacent."""
        self._whose = whose
        if paced != self._paced:
            self._paced = paced
            self._intervals = tuple(sorted({interval for _, interval in paced}))
            self._commands = {}


def _mget(asked: Iterable[tuple[Member, int]]) -> Iterable[Command]:
    for _, part in groupby(asked, key=lambda pair: pair[0].tag):
        names = [f"{member.prefix}{slot}" for member, slot in part]
        yield names[0], ("MGET", *names)
