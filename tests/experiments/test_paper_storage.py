"""The figure of storage: a point is measured, and the figure is drawn from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure as Plot

from experiments.paper.figure import Extent, Record, Records
from experiments.paper.storage import PLAIN, STORAGE

QUICK = Extent(1.0, True)


@pytest.mark.needs("fio")
def test_figure_shows_what_was_measured(tmp_path: Path) -> None:
    point = STORAGE.points(QUICK)[0]
    rows = point.measure(QUICK, tmp_path)
    assert {(row.system, row.role) for row in rows} == {(PLAIN, "write"), (PLAIN, "read")}
    assert list(tmp_path.iterdir()) == []
    records = Records([Record(point.name, point.parameters, row) for row in rows])
    (write, read, *others) = STORAGE.findings(records)
    assert "not measured" not in (write.shardpulse, read.shardpulse)
    assert {finding.shardpulse for finding in others} == {"not measured"}
    plot = Plot()
    STORAGE.draw(plot, records)
    assert [axis.get_title() for axis in plot.axes] == ["sequential write", "sequential read"]
    assert STORAGE.says(records)[0].startswith("One of the two")
