"""Which rows of a listing are shown, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from acquisition.snapshot.states import STATES
from filters.top.columns import AS_IS, COLUMNS, NAME
from filters.top.listing import HOSTS, Listing

Rows = npt.NDArray[np.intp]


def visible_rows(listing: Listing, sort: str, backwards: bool, pattern: str) -> Rows:
    """Indexes of the rows that a filter leaves, in order: greatest first (names: alphabetically), or ``backwards``.

    Rows without the value that is sorted by come last in both directions: missing is neither most nor
    least. Among equals the name decides.
    """
    rows = np.flatnonzero(_matching(listing, pattern))
    by_name = rows if listing.kind == HOSTS else rows[_by_name([listing.names[i] for i in rows.tolist()])]
    if sort == NAME:
        return by_name[::-1] if backwards else by_name
    if sort == AS_IS:
        return rows[::-1] if backwards else rows
    value = _values(listing, sort)[by_name]
    known = np.isfinite(value)
    order = np.argsort(value[known] if backwards else -value[known], kind="stable")
    return np.concatenate([by_name[known][order], by_name[~known]])


def _by_name(names: Sequence[str]) -> Rows:
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.intp)


def _values(listing: Listing, sort: str) -> npt.NDArray[np.float64]:
    chosen = (column.value(listing) for column in COLUMNS[listing.kind] if column.name == sort and column.value)
    return next(chosen, listing.mean).astype(np.float64)


def _matching(listing: Listing, pattern: str) -> npt.NDArray[np.bool_]:
    """Every word of the pattern must match: part of a name or label whatever its case, a pattern with * and ?,
    or ``=late`` for a state."""
    chosen = np.ones(listing.rows, bool)
    for word in pattern.lower().split():
        if word.startswith("="):
            states = [i for i, state in enumerate(STATES) if state.startswith(word[1:])]
            chosen &= np.isin(listing.state, states)
        else:
            chosen &= np.fromiter(_hits(listing.names, listing.labels, word), bool, listing.rows)
    return chosen


def _hits(names: Sequence[str], labels: Sequence[str], word: str) -> list[bool]:
    if "*" in word or "?" in word:
        return [
            fnmatchcase(name.lower(), word) or fnmatchcase(label.lower(), word)
            for name, label in zip(names, labels, strict=True)
        ]
    return [
        word in name.lower() or (bool(label) and word in label.lower())
        for name, label in zip(names, labels, strict=True)
    ]
