"""What is exposed beside a snapshot, made in memory: decision inputs, accounts, the health of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acquisition.model import codes
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.snapshot.balance import REPORTED, Account
from acquisition.snapshot.block import Block
from acquisition.snapshot.books import Books, totals
from acquisition.snapshot.inputs import InputsTable
from acquisition.snapshot.workers import Workers
from acquisition.status.health import Health
from acquisition.wire import inputs as wire
from tests.support.exposition_blocks import NOW

SET = resource_set_id("host")


def table(
    of: Block, names: Sequence[str], derived: int = 0, *, seen: int = 30, code: int = codes.VALID, age: float = 0.0
) -> InputsTable:
    """Decision inputs of a block's rows: figure p of metric c and row r is 100 p + 10 c + r; thresholds c + 0.5."""
    rows, columns, head = len(of.ids), len(names), dict.fromkeys((name for name, _ in wire.HEADER_FIELDS), 0)
    known = {
        "magic": wire.MAGIC, "version": wire.VERSION, "columns": columns, "derived": derived, "entities": rows,
        "window": 30, "depth": 120, "counted": 5,
        "names_size": len(wire.pack_names(names)), "plateau": 4, "unused": b"",
    }  # fmt: skip
    p, c, r = np.meshgrid(np.arange(len(wire.PLANES)), np.arange(columns), np.arange(rows), indexing="ij")
    planes = (100 * p + 10 * c + r).astype("<f4")
    planes[wire.PLANES.index("median"), 0, 0] = np.nan
    averages = np.array([[[0.5]], [[4.0]], [[0.25]], [[age]]], "<f4") * np.ones((4, derived, rows), "<f4")
    data = b"".join((
        wire.HEADER.pack(*(head | known).values()), of.raw_ids, np.full(rows, 1e9).tobytes(),
        np.full(rows, seen, "<u2").tobytes(), (np.arange(columns) + 0.5).astype("<f4").tobytes(),
        np.zeros(columns, "<f4").tobytes(), planes.tobytes(), averages.tobytes(),
        np.full(derived * rows, code, "u1").tobytes(), wire.pack_names(names),
    ))  # fmt: skip
    return InputsTable(wire.check(data), data)


def account(host: str, name: str | None = None, **changes) -> Account:
    """A host whose books balance."""
    counts = dict.fromkeys(Account._fields, 0) | {"made": 100, "applied": 90, "pending": 10}
    counts |= {"host": host_id(host), "host_name": host if name is None else name, "resource_set": SET}
    counts |= {"report": REPORTED, "report_age": 1.5, "sheds": False, "wall": NOW, "interval": 1.0, "faults": ()}
    return Account(**(counts | changes))


def health(*accounts: Account, readable: bool = True, **changes) -> Health:
    books = Books(list(accounts), {}, 4, [], {}, {}) if readable else None
    empty = Health(NOW, [], [], Workers((), (), ()), books, totals(accounts), None, [])
    return empty._replace(**changes)
