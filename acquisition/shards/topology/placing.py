"""Placement of replicas: never in the failure domain of their master (pure).

Servers are identified by their ids. A place is a machine or a rack: its servers may fail together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """A server to follow a master from now on."""

    replica: str
    master: str


class Placing(NamedTuple):
    """``steps`` in the order to be taken; ``lacking``: masters without a server for them."""

    steps: list[Step]
    lacking: list[str]


def place(
    places: Mapping[str, str],
    masters: Sequence[str],
    following: Mapping[str, str],
    spare: Sequence[str],
    each: int,
) -> Placing:
    """Fewest changes after which each of ``masters`` has ``each`` replicas, all in different places.

    ``places``: of every server. ``following``: replica -> its master, one of ``masters``. ``spare``: servers without
    a master, in the order of use; one that no master lacks becomes an additional replica. A replica that is of
    use where it is stays there. Masters with the fewest replicas come first, then those of the place with the most
    masters, since a machine is missing there.
    """
    return _Board(places, masters, following, spare, each).plan()


class _Exchange(NamedTuple):
    """``server`` replaces ``replica`` at the master ``other``."""

    server: str
    replica: str
    other: str


class _Board:
    """State of the plan: ``kept`` are the replicas of each master, ``free`` those that may be placed anywhere."""

    def __init__(
        self,
        places: Mapping[str, str],
        masters: Sequence[str],
        following: Mapping[str, str],
        spare: Sequence[str],
        each: int,
    ) -> None:
        self._places, self._each, self._steps = places, each, list[Step]()
        self._kept: dict[str, list[str]] = {master: [] for master in masters}
        self._spare = list(spare)
        self._misplaced: list[str] = []
        for replica, master in following.items():
            (self._kept[master] if self._suits(replica, master) else self._misplaced).append(replica)

    def plan(self) -> Placing:
        lacking: list[str] = []
        while (master := self._neediest(lacking)) is not None:
            if not self._give(master):
                lacking.append(master)
        for server in list(self._spare):
            suited = [master for master in self._kept if self._suits(server, master)]
            if suited:
                self._move(server, min(suited, key=lambda master: len(self._kept[master])))
        return Placing(self._steps, lacking)

    def _neediest(self, given_up: Sequence[str]) -> str | None:
        crowd = [self._places[master] for master in self._kept]
        needy = [master for master in self._kept if len(self._kept[master]) < self._each and master not in given_up]
        return min(
            needy, key=lambda one: (len(self._kept[one]), -crowd.count(self._places[one])), default=None
        )  # the first of equals

    def _give(self, master: str) -> bool:
        """Find it a replica: a free one, or one of another master that a free one can replace."""
        for server in self._movable():
            if self._suits(server, master):
                self._move(server, master)
                return True
        for server, replica, other in self._exchanges(master):
            self._move(server, other)
            self._move(replica, master)
            return True
        return False

    def _movable(self) -> list[str]:
        spilled = [replicas[self._each :] for replicas in self._kept.values() if len(replicas) > self._each]
        return [*self._spare, *self._misplaced, *(one for group in spilled for one in group)]

    def _exchanges(self, master: str) -> Iterator[_Exchange]:
        for server in self._movable():
            for other, replicas in self._kept.items():
                for replica in replicas:
                    if other != master and self._suits(replica, master) and self._suits(server, other, replica):
                        yield _Exchange(server, replica, other)

    def _suits(self, server: str, master: str, without: str = "") -> bool:
        """Whether it is in another place than the master and its replicas, one of which may be about to leave."""
        taken = {self._places[one] for one in (master, *self._kept[master]) if one != without}
        return self._places[server] not in taken

    def _move(self, server: str, master: str) -> None:
        for group in (self._spare, self._misplaced, *self._kept.values()):
            if server in group:
                group.remove(server)
        self._kept[master].append(server)
        self._steps.append(Step(server, master))
