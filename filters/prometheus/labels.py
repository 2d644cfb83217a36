"""The labels of a snapshot's hosts and entities as text, prepared once and kept while names stay the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model.identity import is_own_name
from acquisition.model.metric import resource_set_id
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.names import Names
from filters.prometheus import syntax

HOST = ("host",)
ENTITY = ("host", "entity", "id")
SET = ("host", "resource_set")


class Rows(NamedTuple):
    """The rows of one block. ``texts`` are their labels, ``template`` is one text with a place for a number
    behind the labels of each row; each row begins with a line feed and the name is still to be put behind it.

    ``repeated`` marks rows whose id stands in an earlier row as well (damaged state), None when there are none.
    """

    names: Names | None
    ids: bytes
    host: str
    single: bool  #: one row, the host itself
    texts: tuple[str, ...]
    template: str
    repeated: npt.NDArray[np.bool_] | None

    def hides(self, row: int) -> bool:
        """Whether a row is left out: its id stands in an earlier one."""
        return self.repeated is not None and bool(self.repeated[row])


class Prepared:
    """Remembers ``Rows`` by (host id, resource set id); threads may share one."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], Rows] = {}

    def rows(self, block: Block, host: str) -> Rows:
        """The rows of a block of the host that is labelled ``host``."""
        key = (block.host_id, block.set_id)
        found = self._rows.get(key)
        ids = block.raw_ids
        if found is None or found.names is not block.names or found.host != host or found.ids != ids:
            found = self._rows[key] = _rows(block, ids, host)
        return found

    def forget(self, blocks: Sequence[Block]) -> None:
        """Drop what is remembered of resource sets that are not among ``blocks``."""
        for key in self._rows.keys() - {(block.host_id, block.set_id) for block in blocks}:
            self._rows.pop(key, None)


def host_names(blocks: Iterable[Block]) -> dict[int, str]:
    """The ``host`` label of each host id: its name, or the id in hex.

    A name counts only if its identity is the id that it came with: no host can take the name of another one, and
    with it its series.
    """
    names = {block.host_id: f"{block.host_id:016x}" for block in blocks}
    names.update((block.host_id, block.host) for block in blocks if is_own_name(block.host, block.host_id))
    return names


def set_names(blocks: Iterable[Block]) -> dict[int, str]:
    """The ``resource_set`` label of each resource set by its number: its name, by the same rule."""
    names = {block.set_id: f"{block.set_id:08x}" for block in blocks}
    names.update(
        (block.set_id, block.resource_set)
        for block in blocks
        if resource_set_id(syntax.encodable(block.resource_set)) == block.set_id
    )
    return names


def is_host(block: Block) -> bool:
    """Whether the only row of a block is the host itself."""
    return block.shape[0] == 1 and block.entities[0].kind == "host"


def _rows(block: Block, ids: bytes, host: str) -> Rows:
    single = is_host(block)
    if single:
        texts: tuple[str, ...] = (syntax.labels(HOST, (host,)),)
    else:
        texts = tuple(syntax.labels(ENTITY, (host, row.name, f"{row.id:016x}")) for row in block.entities)
    template = "".join([f"\n{{{text}}} %.9g" for text in (text.replace("%", "%%") for text in texts)])
    return Rows(block.names, ids, host, single, texts, template, _repeated(block.ids))


def _repeated(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_] | None:
    _, first = np.unique(ids, return_index=True)
    if len(first) == len(ids):
        return None
    repeated = np.ones(len(ids), np.bool_)
    repeated[first] = False
    return repeated
