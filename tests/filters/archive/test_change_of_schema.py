"""A change of schema gives two rows: a probe that begins to sample other metrics in the middle of a minute."""

from __future__ import annotations

import math

import numpy as np

from filters.archive.database.store import open_store
from tests.filters.archive.test_archive_partition import BEGAN, entries, follow, frame
from tests.support.archive_rows import BIG, HOUR_BEGAN, SERIES, batch, definitions, matrix, rows
from tests.support.archived import Rows, assert_equal, reference

OTHER = SERIES._replace(schema=SERIES.schema - 1)
_FIGURES = "SELECT level, seconds, count, low, high FROM rollup_values WHERE metric = 'figure_1' ORDER BY level, count"


def test_a_minute_of_two_schemas_has_a_matrix_of_each() -> None:
    before = [frame(n, BEGAN + n) for n in range(1, 21)]
    after = [frame(n, BEGAN + n, metrics=3)._replace(schema=100) for n in range(21, 51)]
    after = [one._replace(made=20 * 4 + (one.sequence - 21) * one.samples) for one in after]
    found = Rows()
    follow(entries([*before, *after]), found)
    assert_equal(found, reference([*before, *after]))
    counted = {(series.schema, minute): kept.count for (series, minute, _, _), kept in found.cells.items()}
    assert counted == {(99, BEGAN): 20, (100, BEGAN): 30}


def test_view_has_each_row_before_and_after_compaction(migrated: str) -> None:
    before, after = np.full((20, 1, 2), 4.0, np.float32), np.full((40, 1, 3), 8.0, np.float32)
    minutes = (
        matrix(HOUR_BEGAN, before, ids=(BIG,)),
        matrix(HOUR_BEGAN, after, ids=(BIG,), series=OTHER, tick=HOUR_BEGAN + 30),
    )
    known = (*definitions(), *definitions(OTHER, width=3))
    of_each = [(20, 4.0, 4.0), (40, 8.0, 8.0)]
    with open_store(migrated) as store:
        assert store.commit(batch(minutes=minutes, metrics=known))
        assert rows(migrated, _FIGURES) == [(60, HOUR_BEGAN, *figures) for figures in of_each]
        assert store.compact(HOUR_BEGAN + 3 * 3600) == 2
    found = rows(migrated, _FIGURES)
    assert [row[:3] for row in found] == [
        (level, HOUR_BEGAN, count) for level in (60, 300, 3600) for count, *_ in of_each
    ]
    assert all(math.isclose(low, high) and low in (4.0, 8.0) for *_, low, high in found)
    assert rows(migrated, "SELECT count(*) FROM rollups_1m") == [(2,)]
