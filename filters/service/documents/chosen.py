"""What of a snapshot an answer is about: patterns of names, and labels of hosts and of what runs on them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from acquisition.snapshot.selection import Selection
from acquisition.wire.table import Entity


class Chosen(NamedTuple):
    """``host_ids``: hosts whose labels fit, ``labelled``: whether those of an entity do; None takes everything."""

    patterns: Selection = Selection()
    host_ids: Collection[int] | None = None
    labelled: Callable[[Entity], bool] | None = None

    @property
    def narrows_entities(self) -> bool:
        """Whether not all entities are wanted."""
        return self.patterns.entities is not None or self.labelled is not None

    @property
    def narrows_metrics(self) -> bool:
        """Whether not all metrics are wanted."""
        return self.patterns.metrics is not None

    def takes_host(self, name: str, number: int) -> bool:
        """Whether a host is wanted."""
        return self._labelled(number) and self.patterns._replace(resource_sets=None).takes_block(name, number, "", 0)

    def takes_block(self, host: str, host_id: int, resource_set: str, set_id: int) -> bool:
        """Whether rows of this resource set of this host may be wanted."""
        return self._labelled(host_id) and self.patterns.takes_block(host, host_id, resource_set, set_id)

    def takes_set(self, resource_set: str, set_id: int) -> bool:
        """Whether a resource set is wanted, on any host."""
        return self.patterns._replace(hosts=None).takes_block("", 0, resource_set, set_id)

    def takes_entity(self, entity: Entity) -> bool:
        """Whether an entity is wanted."""
        return self.patterns.takes_entity(entity) and (self.labelled is None or self.labelled(entity))

    def takes_metric(self, name: str) -> bool:
        """Whether a metric is wanted."""
        return self.patterns.takes_metric(name)

    def _labelled(self, host_id: int) -> bool:
        return self.host_ids is None or host_id in self.host_ids
