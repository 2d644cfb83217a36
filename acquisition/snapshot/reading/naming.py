"""Naming what a reading has found: from the cache where that will do, else by asking the shards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from acquisition.errors import DataError, PermissionRefused, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Member, Owner, read_names
from acquisition.snapshot.values.names import SOON, Names, NamesCache
from acquisition.snapshot.visibility.inquiry import Begun

_LOOKED_EVERY = 1.0  #: seconds


class Naming:
    """The names that a reader knows, and those that its next reading asks for. One reader uses it."""

    def __init__(self) -> None:
        self._cache = NamesCache()
        self._looked = 0.0
        self._outdated: dict[Member, None] = {}  #: in the order in which they were found

    def renew(self, cluster: Cluster, now: float) -> list[ShardpulseError]:
        """Ask for what the readings before have left to this one. Answers which tables are damaged."""
        members, self._outdated = list(self._outdated), {}
        return self._ask(cluster, members, now)

    def name(
        self, cluster: Cluster, begun: Sequence[Begun], taken: Sequence[Begun], now: float, whole: bool
    ) -> list[str]:
        """Name all blocks; what has no names yet, or old ones, is asked for if it is taken: at once, or where the
        reading is ``whole`` and the next one will do, with that. Answers which tables are damaged."""
        wanted: list[Member] = []
        for member, block in taken:
            schema = block.schema if block.has_values or block.head else None
            when = self._cache.wanted(member.host, member.resource_set, block.raw_ids, schema, now)
            if when == SOON and whole:
                self._outdated[member] = None
            elif when:
                wanted.append(member)
        errors = self._ask(cluster, wanted, now)
        for _, block in begun:
            names = self._cache.get(block.host_id, block.set_id)
            block.use_names(names, None if names is not None else self._cache.set_name(block.set_id))
        return [str(error) for error in errors]

    def all_of(self, members: Sequence[Member]) -> Sequence[Names | None]:
        """What is known of each member: for the same members the same sequence, as long as nothing else is known."""
        return self._cache.all_of(members)

    def note_outdated(self, members: Iterable[Member], names: Iterable[Names | None], now: float) -> None:
        """Have the next reading ask for those of these names that are old; once a second."""
        if not 0.0 <= now - self._looked < _LOOKED_EVERY:
            self._looked = now
            self._outdated |= dict.fromkeys(self._cache.outdated(members, names, now))

    def suffices(self, member: Member, block: Block) -> bool:
        """Whether everything in a block has a name."""
        names = self._cache.get(member.host, member.resource_set)
        return names is not None and (not block.has_values or names.knows(block.raw_ids, block.schema))

    def forget(self, present: set[Owner]) -> None:
        """Let go of the names of all but these."""
        self._cache.forget(present)

    def _ask(self, cluster: Cluster, members: Sequence[Member], now: float) -> list[ShardpulseError]:
        """Take the tables of members; those that are damaged, or may not be read, are reported, and change nothing."""
        errors: list[ShardpulseError] = []
        values: Sequence[Any] = read_names(cluster, members) if members else ()
        for member, value in zip(members, values, strict=True):
            if isinstance(value, PermissionRefused):
                errors.append(value)
            elif value is None or isinstance(value, bytes):
                error = self._cache.put(member.host, member.resource_set, value, now)
                errors += [DataError(f"names of host {member.host:016x}: {error}")] if error else []
        return errors
