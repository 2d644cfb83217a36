"""Names of hosts and of the rows and columns of a resource set, and their cache.

Names change rarely and are large (as large as the samples), so a reader keeps them and reads them
again only if a record contains an unknown id or column, and now and then for names
that changed under the same id (a process that called exec, a renamed guest).
A missing table hides nothing: what it would name is shown by its number.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np

from acquisition.errors import FrameError
from acquisition.model.identity import is_own_name
from acquisition.model.metric import INFINITY, Metric, schema_hash
from acquisition.snapshot.values.members import Member
from acquisition.wire import table as table_format
from acquisition.wire.table import Entity, Table

#: Seconds after which names are read again although none is missing.
REFRESH_SECONDS = 30.0
_OUTDATED_SECONDS = 4 * REFRESH_SECONDS  #: after which they are not used before they have been read again
_REMEMBERED_VECTORS = 4

NOW, SOON = "now", "soon"


def nameless_entity(identity: int) -> Entity:
    """Stand-in for an entity without a table yet: its id in hex as the name."""
    return Entity(identity, "", "", "", f"{identity:016x}")


def nameless_metric(schema: int, column: int) -> Metric:
    """Stand-in for a column without a table yet: ``SCHEMA#COLUMN``."""
    return Metric(f"{schema:08x}#{column}", "", "", -INFINITY, INFINITY, "")


class Names:
    """One table, indexed: entities by id, metrics by column; ``said`` is the host's own name."""

    __slots__ = ("_known", "_memo", "entities", "raw", "read_at", "said", "schema", "table")

    def __init__(self, table: Table, raw: bytes = b"", read_at: float = 0.0) -> None:
        self.table = table
        self.said = table.host
        self.raw = raw
        self.read_at = read_at
        self.schema = schema_hash(table.metrics)
        self.entities = {entity.id: entity for entity in table.entities}
        self._known = b""
        self._memo: dict[bytes, tuple[Entity, ...]] = {}

    def knows(self, ids: bytes, schema: int) -> bool:
        """Whether every id of the vector (uint64 as bytes) and the schema have names."""
        if schema != self.schema:
            return False
        if ids == self._known:
            return True
        if not self.entities.keys() >= set(_unpack(ids)):
            return False
        self._known = ids
        return True

    def called(self, name: str) -> Names:
        """The same names with this name for the host, also as an entity."""
        if name == self.table.host:
            return self
        rows = (each._replace(name=name) if each.kind == "host" else each for each in self.table.entities)
        made = Names(self.table._replace(host=name, entities=tuple(rows)), self.raw, self.read_at)
        made.said = self.said
        return made

    def entities_of(self, ids: bytes) -> tuple[Entity, ...]:
        """The entities of an id vector in order; the last few vectors are remembered."""
        found = self._memo.get(ids)
        if found is None:
            found = tuple(self.entities.get(key) or nameless_entity(key) for key in _unpack(ids))
            if len(self._memo) >= _REMEMBERED_VECTORS:
                self._memo.clear()
            self._memo[ids] = found
        return found

    def metrics_of(self, schema: int, count: int) -> Sequence[Metric]:
        """Metrics of the columns of a record."""
        if schema == self.schema and count == len(self.table.metrics):
            return self.table.metrics
        return [nameless_metric(schema, column) for column in range(count)]


def _unpack(ids: bytes) -> list[int]:
    unpacked: list[int] = np.frombuffer(ids, "<u8").tolist()
    return unpacked


class HostNames:
    """Gives names to ids, in the order of arrival.

    The id of a probe is derived from its name, and so are the users of shards and the keys made for it: the name
    belongs to such an id alone, also before it is seen, or after it is gone. Only if no host has such an id does
    a name belong to the first host that uses it, until it is forgotten. Any other host is called by its id.
    """

    def __init__(self) -> None:
        self.made_of_names = False  #: whether any id is derived from a name
        self._first: dict[str, int] = {}

    def name(self, host: int, said: str) -> str:
        """Name of a host whose own name is ``said``."""
        own = is_own_name(said, host)
        self.made_of_names |= own
        if own or (not self.made_of_names and self._first.setdefault(said, host) == host):
            return said
        return f"{host:016x}"

    def forget(self, hosts: Container[int]) -> None:
        """Forget the names of all but these."""
        self._first = {said: host for said, host in self._first.items() if host in hosts}


def names_of(said: Mapping[int, str]) -> dict[int, str]:
    """Names of all hosts, from their own names."""
    names = HostNames()
    for _ in range(2):  # what is known of the last one counts for the first
        found = {host: names.name(host, word) for host, word in said.items()}
    return found


class NamesCache:
    """Names by (host id, resource set id), as far as they have been read."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], Names] = {}
        self._set_names: dict[int, str] = {}
        self._hosts = HostNames()
        self._asked: tuple[Sequence[Member], list[Names | None]] | None = None  #: the last request
        #: The same columns for all hosts that have them: they are most of the memory of a table.
        self._columns: dict[tuple[Metric, ...], tuple[Metric, ...]] = {}

    def get(self, host: int, resource_set: int) -> Names | None:
        """Known names; None if there are none."""
        return self._names.get((host, resource_set))

    def all_of(self, members: Sequence[Member]) -> Sequence[Names | None]:
        """Known names of each member: for the same members the same sequence, as long as nothing has changed."""
        if self._asked is None or self._asked[0] is not members:
            names = self._names
            self._asked = members, [names.get((member.host, member.resource_set)) for member in members]
        return self._asked[1]

    def outdated(self, members: Iterable[Member], names: Iterable[Names | None], now: float) -> list[Member]:
        """Members with names that suffice now and are to be read with the next reading."""
        return [
            member
            for member, known in zip(members, names, strict=True)
            if known is None or not 0 <= now - known.read_at < REFRESH_SECONDS * (1 + member.host % 64 / 64)
        ]

    def set_name(self, resource_set: int) -> str | None:
        """Name of a resource set by its number, known from any host's table."""
        return self._set_names.get(resource_set)

    def wanted(self, host: int, resource_set: int, ids: bytes, schema: int | None, now: float) -> str:
        """Whether these names should be read: NOW, SOON (with the next reading), or "" for not at all; ``schema`` is
        None if there is no record to name.

        Readings for renewal are spread over time by host, so that no snapshot pays for all.
        """
        names = self._names.get((host, resource_set))
        if names is None or (schema is not None and not names.knows(ids, schema)):
            return NOW
        age = now - names.read_at
        if 0 <= age < REFRESH_SECONDS * (1 + host % 64 / 64):
            return ""
        return SOON if 0 <= age < _OUTDATED_SECONDS else NOW

    def put(self, host: int, resource_set: int, raw: bytes | None, now: float) -> FrameError | None:
        """Process the shard's answer; a damaged table changes nothing and is returned."""
        if raw is None:
            return None
        old = self._names.get((host, resource_set))
        if old is not None and old.raw == raw:
            old.read_at = now
            return None
        try:
            table = table_format.decode(raw, old.entities if old is not None else None)
        except FrameError as error:
            return error
        columns = self._columns.setdefault(table.metrics, table.metrics)
        names, made_of_names = Names(table._replace(metrics=columns), raw, now), self._hosts.made_of_names
        self._names[host, resource_set] = names.called(self._hosts.name(host, names.said))
        self._asked = None
        if made_of_names != self._hosts.made_of_names:
            self._name_all()
        self._set_names[resource_set] = names.table.resource_set
        return None

    def _name_all(self) -> None:
        """Give all hosts their current names."""
        self._names = {key: each.called(self._hosts.name(key[0], each.said)) for key, each in self._names.items()}

    def forget(self, present: set[tuple[int, int]]) -> None:
        """Drop the names of resource sets no longer known to any shard."""
        for key in self._names.keys() - present:
            del self._names[key]
            self._asked = None
        if self._asked is None and not self._hosts.made_of_names:
            self._hosts.forget({host for host, _ in present})
            self._name_all()
        if len(self._columns) > 64 + len(self._names):  # columns that came and went
            self._columns.clear()
