"""Request of ``shardpulse query``, checked against the shards' contents.

Unknown names get suggestions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import NamedTuple

from acquisition.errors import DataError
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.rows import Row, Selection, entity_keys, rows_of
from acquisition.snapshot.vms.placement import Placements

_SHOWN = 12
#: The most important metrics of a process or VM, of a host, and of anything else (the first one).
_BRIEF = (
    ("cpu_ratio",),
    ("cpu_user_ratio", "cpu_system_ratio", "cpu_iowait_ratio", "cpu_idle_ratio", "tasks_runnable",
     "memory_available_bytes", "swap_used_bytes", "pressure_cpu_some_ratio"),
)  # fmt: skip


class Request(NamedTuple):
    """Patterns as given by the user; ``top``: number of entities per host and set (0: all); ``brief``: only the most
    important metrics if none was named."""

    hosts: Sequence[str] = ()
    resource_sets: Sequence[str] = ()
    entities: Sequence[str] = ()
    metrics: Sequence[str] = ()
    top: int = 0
    brief: bool = False


class Section(NamedTuple):
    """The requested rows of one block; ``hidden`` entities were omitted because of ``top``, and
    ``hidden_metrics`` because the request was brief."""

    block: Block
    rows: list[Row]
    hidden: int
    hidden_metrics: int = 0


def sections(snapshot: Snapshot, request: Request) -> list[Section]:
    """Sections selected by the request. Raises DataError naming the first pattern that matches nothing."""
    blocks = _check(request, snapshot.blocks)
    selection = Selection.of((), (), request.entities, request.metrics)
    found = [_section(block, selection, request, snapshot.placements) for block in blocks]
    return [section for section in found if section.rows]


def _section(block: Block, selection: Selection, request: Request, placements: Placements) -> Section:
    rows = list(rows_of([block], selection, placements.mark))
    top, hidden_metrics = request.top, 0
    if request.brief and not request.metrics:
        known = dict.fromkeys(row.metric for row in rows)
        matching = ([name for name in names if name in known] for names in _BRIEF)
        shown = next(filter(None, matching), list(known)[:1])
        rows, hidden_metrics = [row for row in rows if row.metric in shown], len(known) - len(shown)
    best: dict[str, float] = {}
    for row in rows:  # the first selected metric decides, cpu_ratio if selected
        if row.id not in best or row.metric == "cpu_ratio":
            best[row.id] = row.mean if row.mean is not None else float("-inf")
    if not top or len(best) <= top:
        return Section(block, rows, 0, hidden_metrics)
    kept = set(sorted(best, key=lambda key: -best[key])[:top])
    ordered = sorted((row for row in rows if row.id in kept), key=lambda row: -best[row.id])
    return Section(block, ordered, len(best) - top, hidden_metrics)


def _check(request: Request, blocks: Sequence[Block]) -> list[Block]:
    """Blocks of the requested hosts and sets, after checking every pattern."""
    chosen = _choose("host", request.hosts, blocks, lambda b: [b.host, f"{b.host_id:016x}"])
    chosen = _choose(
        "resource set", request.resource_sets, chosen, lambda block: [block.resource_set, f"{block.set_id:08x}"]
    )
    _require("metric", request.metrics, (metric.name for block in chosen for metric in block.metrics))
    if request.entities:
        names = (name for block in chosen for entity in block.entities for name in entity_keys(entity))
        shown = (entity.name for block in chosen for entity in block.entities)
        _require("entity", request.entities, names, shown)
    return chosen


def _choose(
    what: str, patterns: Sequence[str], blocks: Sequence[Block], names_of: Callable[[Block], list[str]]
) -> list[Block]:
    if not patterns:
        return list(blocks)
    _require(what, patterns, (name for block in blocks for name in names_of(block)), [names_of(b)[0] for b in blocks])
    return [block for block in blocks if any(fnmatchcase(name, p) for name in names_of(block) for p in patterns)]


def _require(what: str, patterns: Sequence[str], names: Iterable[str], shown: Iterable[str] | None = None) -> None:
    if not patterns:
        return
    known = dict.fromkeys(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise DataError(f"no {what} matches {pattern!r}{_hint(pattern, list(dict.fromkeys(shown or known)))}")


def _hint(pattern: str, known: list[str]) -> str:
    near = get_close_matches(pattern, known, 3)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    if not known:
        return ""
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"; known: {', '.join(known[:_SHOWN])}{more}"
