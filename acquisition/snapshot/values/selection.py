"""Which rows a reader asks for: patterns of hosts, resource sets, entities and metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import NamedTuple

from acquisition.wire.table import Entity

#: One pattern or several; none selects everything. ``*`` and ``?`` are wildcards; case counts.
Patterns = str | Iterable[str]


class Selection(NamedTuple):
    """Compiled patterns; None selects everything."""

    hosts: re.Pattern[str] | None = None
    resource_sets: re.Pattern[str] | None = None
    entities: re.Pattern[str] | None = None
    metrics: re.Pattern[str] | None = None

    @classmethod
    def of(
        cls, host: Patterns = (), resource_set: Patterns = (), entity: Patterns = (), metric: Patterns = ()
    ) -> Selection:
        """Compile patterns of names or hexadecimal ids."""
        return cls(*(_compile(patterns) for patterns in (host, resource_set, entity, metric)))

    def takes_block(self, host: str, host_id: int, resource_set: str, set_id: int) -> bool:
        """Whether rows of this resource set of this host may be wanted."""
        return _matches(self.hosts, host, f"{host_id:016x}") and _matches(
            self.resource_sets, resource_set, f"{set_id:08x}"
        )

    def takes_entity(self, entity: Entity) -> bool:
        """Whether an entity is wanted, by any of ``entity_keys``."""
        return self.entities is None or _matches(self.entities, *entity_keys(entity))

    def takes_metric(self, name: str) -> bool:
        """Whether a metric is wanted."""
        return _matches(self.metrics, name)


def entity_keys(entity: Entity) -> tuple[str, ...]:
    """What an entity can be asked for by: name, stable id (``HOST:PID``, uuid), pid, id in hex."""
    pid = entity.stable.rpartition(":")[2]
    return entity.name, entity.stable, pid, f"{entity.id:016x}"


def _compile(patterns: Patterns) -> re.Pattern[str] | None:
    chosen = [patterns] if isinstance(patterns, str) else list(patterns)
    return re.compile("|".join(translate(pattern) for pattern in chosen)) if chosen else None


def _matches(pattern: re.Pattern[str] | None, *texts: str) -> bool:
    return pattern is None or any(pattern.match(text) for text in texts)
