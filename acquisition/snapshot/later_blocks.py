"""Blocks of current hosts of a survey, of which a list says that they are there: each is made when somebody looks.

Everything that they are made of has been read: the records lie in the survey, and the names are known. So a block
that is made later is the block of the moment when its survey was read, whatever has been read since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from acquisition.snapshot.block import Block
from acquisition.snapshot.finishing import COHERENT
from acquisition.snapshot.names import Names
from acquisition.snapshot.placement import Placements
from acquisition.snapshot.record_arrays import Rows
from acquisition.snapshot.snapshot import Snapshot
from acquisition.snapshot.survey import Survey


class LaterBlocks(Mapping[int, Block]):
    """The blocks of hosts of a ``survey`` by their ids. ``places`` (k,) are theirs in the survey, ``names`` (k) their
    tables, ``now`` is the reader's clock when everything had been read."""

    def __init__(self, survey: Survey, places: Rows, names: Sequence[Names], now: float) -> None:
        self._survey = survey
        self._now = now
        hosts = survey.hosts[places].tolist()
        self._places = dict(zip(hosts, places.tolist(), strict=True))
        self._names = dict(zip(hosts, names, strict=True))

    def __getitem__(self, host: int) -> Block:
        return self.some([host])[0]

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def name(self, host: int) -> str:
        """The name of a host."""
        found: str = self._names[host].table.host
        return found

    def some(self, hosts: Sequence[int]) -> list[Block]:
        """Those of these hosts."""
        found = list(self._survey.blocks([self._places[host] for host in hosts]).values())
        for host, block in zip(hosts, found, strict=True):
            block.use_names(self._names[host], None)
            if block.wall:
                block.age_seconds = self._now - min(block.wall, block.filtered)
        return found

    def snapshot(self, hosts: Sequence[int]) -> Snapshot:
        """A reading of these hosts alone, as ``SnapshotReader.details`` gives it."""
        blocks = self.some(hosts)
        return Snapshot(COHERENT, self._now, blocks, (), (), Placements(blocks, {}), self._survey.taken.due.now)
