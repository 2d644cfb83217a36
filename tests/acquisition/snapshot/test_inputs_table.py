"""Decision inputs in the records of blocks: single rows against the whole section, and what has none."""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.model.derived import CPU
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable, table_of, tables_of
from acquisition.wire.position import Position
from acquisition.wire.records import inputs as wire
from acquisition.wire.records import smoothed
from tests.support.scene import record
from tests.support.sections import section, with_section


def block(data: bytes) -> Block:
    made = Block(7, 9, Position(5, 1, 100, 100.5, 1.0))
    made.take(smoothed.check(data), data)
    return made


def bare(rows: int) -> bytes:
    return record(7, 9, range(1, rows + 1), np.ones((rows, 2)), 100)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("plateau", [0, 4])
@pytest.mark.parametrize(("columns", "rows", "derived"), [(1, 1, 1), (3, 4, 2), (2, 5, 0)])
def test_single_rows_are_what_the_whole_section_says(
    columns: int, rows: int, derived: int, plateau: int, ordered: bool
) -> None:
    made = section([f"m{n}" for n in range(columns)], rows, derived, plateau=plateau, ordered=ordered)
    table = table_of(block(with_section(bare(rows), made)))
    assert isinstance(table, InputsTable)
    assert (table.metrics, table.rows) == (made.names, rows)
    for column, name in enumerate(made.names):
        for row in range(rows):
            found = table.inputs(row, name)
            assert found is not None
            assert (found.cusum, found.time_above_seconds) == (
                made.figure("cusum")[column, row], made.figure("time_above")[column, row],
            )  # fmt: skip
            assert [found.valid, found.counted_valid, found.above] == made.counts[:, column, row].tolist()
            assert (found.threshold, found.since, found.warming, found.ordered) == (0.5, 1e9, True, ordered)
            for figures, there in ((wire.PLATEAU_FIGURES, plateau), (wire.ORDER_FIGURES, ordered)):
                for figure in figures:
                    assert getattr(found, figure) == (made.figure(figure)[column, row] if there else None), figure
            reading = table.derived(row, name)
            assert (reading is not None) == table.is_derived(name) == (column >= columns - derived)
            if reading is not None:
                assert (reading.mean, reading.last, reading.trend, reading.code) == (0.125, 0.125, 0.125, 2)
    assert table.inputs(rows, made.names[0]) is None
    assert table.inputs(0, "unknown") is None
    assert table.warming().all()


def test_bursts_of_a_row_are_of_the_last_three_hours() -> None:
    made = section((CPU, "other"), 2, 2, bursts=len(wire.BURST_FIGURES))
    made.bursts[...] = np.arange(len(wire.BURST_FIGURES))[:, None] + (0.0, 100.0)
    table = table_of(block(with_section(bare(2), made)))
    assert table is not None
    found, other = table.inputs(1, CPU), table.inputs(1, "other")
    assert found is not None
    assert other is not None
    assert other.bursts is None
    # open, held, the sum, the longest and the highest of the slots, period, regular, since, length
    assert found.bursts == (100.0, 102.0, 699, 113.0, 125.0, 106.0, 107, 104.0, 105.0)


def test_a_damaged_section_leaves_the_values() -> None:
    spoilt = block(record(7, 9, [1], np.ones((1, 2)), 100, section=b"?" * 64))
    assert spoilt.plane("mean").tolist() == [[1.0, 1.0]]
    sound = block(with_section(bare(2), section(entities=2)))
    sound.set_id = 10
    assert tables_of([spoilt, block(bare(2)), sound]).keys() == {(7, 10)}


def test_a_block_without_values_has_no_decision_inputs() -> None:
    late = block(with_section(bare(2), section(entities=2)))
    late.has_values = False
    assert table_of(late) is None
