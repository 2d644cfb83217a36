"""The table of planes: units, derived figures, and planes of kernels that are not installed here."""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.matrix import matrix_of
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.values.rows import Selection, rows_of
from acquisition.wire.records import planes, smoothed
from acquisition.wire.records.planes import Plane
from acquisition.wire.table import Table
from tests.support.scene import METRICS, entities, record


@pytest.mark.parametrize(
    ("plane", "unit", "expected"),
    [
        (planes.MEAN, "ratio", "ratio"),
        (planes.TREND, "bytes", "bytes/s"),
        (Plane(5, "waited", "", unit="seconds"), "ratio", "seconds"),
        (Plane(5, "changes", "", unit="count", per_second=True), "ratio", "count/s"),
    ],
)
def test_the_unit_of_a_figure(plane: Plane, unit: str, expected: str) -> None:
    assert plane.unit_of(unit) == expected


def test_the_deviation_is_the_root_of_the_variance() -> None:
    assert planes.VARIANCE.figure == "deviation"
    assert planes.VARIANCE.figures(np.float32([4.0, np.nan, -1.0])).tolist()[:1] == [2.0]
    assert np.isnan(planes.VARIANCE.figures(np.float32([np.nan, -1.0]))).all()


def test_numbers_on_the_wire_stay() -> None:
    assert {plane.number: plane.name for plane in planes.OWN} == {1: "last", 2: "mean", 3: "variance", 4: "trend"}
    assert planes.known()[: len(planes.OWN)] == planes.OWN


def test_a_plane_that_nobody_registers_here_is_shown_by_its_number() -> None:
    rows = entities("web-1", ["init"])
    data = record(host_id("web-1"), resource_set_id("processes"), [rows[0].id], np.array([[1.0, 2.0]]), 7)
    head = smoothed.unpack_head(data)
    numbers = bytes((head.plane_ids[0], head.plane_ids[1], head.plane_ids[2], 200)).ljust(smoothed.MAX_PLANES, b"\0")
    data = smoothed.HEADER.pack(*head._replace(plane_ids=numbers)) + data[smoothed.HEADER_SIZE :]
    block = Block(head.host, head.resource_set, None)
    block.take(smoothed.check(data), data)
    block.use_names(Names(Table("web-1", "processes", 1.0, "procfs", True, METRICS, rows)), None)
    found = list(rows_of([block], Selection()))
    assert [(row.trend, row.extra) for row in found] == [(None, {"plane200": 0.5})] * 2
    matrix = matrix_of([block, Block(1, head.resource_set, None)], Selection(), METRICS[0].name)
    assert np.isnan(matrix.trend).all()
    assert {name: column.tolist() for name, column in matrix.extra.items()} == {"plane200": [0.5]}
