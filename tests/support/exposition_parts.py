"""Exposition parts made in memory: decision inputs, accounts, health."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acquisition.model import codes
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.snapshot.reconcile.balance import REPORTED, Account
from acquisition.snapshot.reconcile.books import Books, totals
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.visibility.workers import Workers
from acquisition.status.health import Health
from acquisition.wire.records import inputs as wire
from acquisition.wire.records import smoothed
from tests.support.exposition_blocks import NOW
from tests.support.sections import section, with_section

SET = resource_set_id("host")


def table(
    of: Block,
    names: Sequence[str],
    derived: int = 0,
    *,
    seen: int = 30,
    code: int = codes.VALID,
    age: float = 0.0,
    threshold: float = 0.5,
    valid: int | None = None,
) -> InputsTable:
    """Decision inputs of a block's rows: figure p of metric c and row r is 20 p + 5 c + r; thresholds c + 0.5."""
    rows, columns = len(of.ids), len(names)
    p, c, r = np.meshgrid(np.arange(len(wire.KEPT)), np.arange(columns), np.arange(rows), indexing="ij")
    kept, count = (20 * p + 5 * c + r).astype("<f4"), len(wire.FIGURES)
    kept[wire.KEPT.index("median"), 0, 0] = np.nan
    if valid is not None:
        kept[wire.KEPT.index("valid")] = valid
    averages = np.array([[[0.5]], [[0.375]], [[4.0]], [[0.25]], [[age]]], "<f4") * np.ones((5, derived, rows), "<f4")
    made = section(names, rows, derived, code=code)._replace(
        figures=kept[:count], counts=kept[count:], derived=averages, seen=np.full(rows, seen),
        thresholds=np.arange(columns) + threshold,
    )  # fmt: skip
    data = with_section(of.data, made)
    head = smoothed.check(data)
    of.take(head, data)
    return InputsTable(wire.check(smoothed.section(data, head), rows), head, data)


def account(host: str, name: str | None = None, **changes) -> Account:
    """A host whose books balance."""
    counts = dict.fromkeys(Account.__struct_fields__, 0) | {"made": 100, "applied": 90, "pending": 10}
    counts |= {"host": host_id(host), "host_name": host if name is None else name, "resource_set": SET}
    counts |= {"report": REPORTED, "report_age": 1.5, "sheds": False, "wall": NOW, "interval": 1.0, "faults": ()}
    return Account(**(counts | changes))


def health(*accounts: Account, readable: bool = True, **changes) -> Health:
    books = Books(list(accounts), {}, 4, [], {}, {})
    found = Health(NOW, [], [], Workers((), (), ()), books, totals(accounts), None, [])
    if not readable:
        found = found._replace(lags=None, workers=None, books=None, totals=None, readers=None)
    return found._replace(**changes)
