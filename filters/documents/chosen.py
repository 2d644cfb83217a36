"""Chosen part of a snapshot: name patterns, and labels of hosts and entities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import groupby
from typing import NamedTuple, TypeVar

import numpy as np

from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.rows import Selection
from acquisition.wire.records.planes import MEAN
from acquisition.wire.table import Entity

_BUSIEST_BY = "cpu_ratio"
_Host = TypeVar("_Host")


class Page(NamedTuple):
    """At most ``limit`` hosts in name order, ``after`` the one given."""

    limit: int | None = None
    after: str = ""

    def cut(self, hosts: Iterable[_Host], name_of: Callable[[_Host], str]) -> tuple[list[_Host], str | None]:
        """The hosts of the page, from ``hosts`` in order, and the name after which the next page begins, or None."""
        behind = [host for host in hosts if name_of(host) > self.after]
        page = behind[: self.limit]
        return page, name_of(page[-1]) if len(page) < len(behind) else None


class Chosen(NamedTuple):
    """``host_ids``: hosts with matching labels; ``labelled``: whether an entity's labels match; None accepts all.
    ``top``: number of rows of each block, those with the greatest mean; 0: all."""

    patterns: Selection = Selection()
    host_ids: Collection[int] | None = None
    labelled: Callable[[Entity], bool] | None = None
    top: int = 0

    @property
    def narrows_entities(self) -> bool:
        """Whether only some entities are selected."""
        return self.patterns.entities is not None or self.labelled is not None

    @property
    def narrows_metrics(self) -> bool:
        """Whether only some metrics are selected."""
        return self.patterns.metrics is not None

    def takes_host(self, name: str, number: int) -> bool:
        """Whether a host is selected."""
        return self._labelled(number) and self.patterns._replace(resource_sets=None).takes_block(name, number, "", 0)

    def takes_block(self, host: str, host_id: int, resource_set: str, set_id: int) -> bool:
        """Whether rows of this resource set of this host may be selected."""
        return self._labelled(host_id) and self.patterns.takes_block(host, host_id, resource_set, set_id)

    def takes_set(self, resource_set: str, set_id: int) -> bool:
        """Whether a resource set is selected, on any host."""
        return self.patterns._replace(hosts=None).takes_block("", 0, resource_set, set_id)

    def takes_entity(self, entity: Entity) -> bool:
        """Whether an entity is selected."""
        return self.patterns.takes_entity(entity) and (self.labelled is None or self.labelled(entity))

    def takes_metric(self, name: str) -> bool:
        """Whether a metric is selected."""
        return self.patterns.takes_metric(name)

    def rows_and_columns(self, block: Block) -> tuple[list[int], list[int]]:
        """Selected rows and columns of a block; with ``top`` the rows with the greatest mean of ``cpu_ratio``, or else
        of the first selected metric, the greatest first and missing values last."""
        rows = [row for row, entity in enumerate(block.entities) if self.takes_entity(entity)]
        columns = [column for column, metric in enumerate(block.metrics) if self.takes_metric(metric.name)]
        if self.top and columns:
            by = next((column for column in columns if block.metrics[column].name == _BUSIEST_BY), columns[0])
            means = block.shown(MEAN)[rows, by]
            rows = [rows[place] for place in np.argsort(-means, kind="stable")[: self.top].tolist()]
        return rows, columns

    def _labelled(self, host_id: int) -> bool:
        return self.host_ids is None or host_id in self.host_ids


def by_host(blocks: Iterable[Block]) -> Iterable[list[Block]]:
    """The blocks of each host together; ``blocks`` are in snapshot order."""
    for _, group in groupby(blocks, key=lambda block: (block.host, block.host_id)):
        yield list(group)
