"""What docs/archive.md shows runs."""

from __future__ import annotations

import re

import pytest

from filters.archive.database.retention import SETTINGS
from filters.archive.database.schema import metadata
from filters.archive.database.store import open_store
from filters.archive.minutes.values import EntityEpoch, Event, HostRow, MetricDefinition, Run, Series
from tests.support import ROOT
from tests.support.archive_rows import HOUR_BEGAN, batch, episode, made_up, matrix, rows

PAGE = (ROOT / "docs" / "archive.md").read_text()
VM = "8c1d7a52-77c9-4a4e-9bd0-0d5a4a8f2b11"
STATEMENTS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)[0].strip().rstrip(";").split(";\n")


@pytest.fixture
def filled(migrated: str) -> str:
    samples = made_up()
    vms, host = Series(1, 7, 3, 4), Series(1, 8, 3, 5)
    minutes = [
        matrix(HOUR_BEGAN + 60 * n, part, (9, 5), series) for series in (vms, host) for n, part in enumerate(samples)
    ]
    metrics = [
        MetricDefinition(schema, place, name, metric, "ratio", "gauge", 0.0, 1.0, "")
        for schema, name, metric in ((4, "vms", "cpu_ratio"), (5, "host", "cpu_busy_ratio"))
        for place in range(2)
    ]
    vm = EntityEpoch(9, 1, 7, "vm", VM, "", "web", HOUR_BEGAN, HOUR_BEGAN + 9)
    with open_store(migrated) as store:
        inventory = {"hosts": (HostRow(1, "alpha", 1.0, 2.0),), "entities": (vm,), "metrics": tuple(metrics)}
        runs = (Run("experiments.planner 2026", 1.0, "python -m experiments.planner", 2.0),)
        events = (Event(HOUR_BEGAN, "gap", 1, details={"samples": 3}),)
        assert store.commit(
            batch(minutes=tuple(minutes), episodes=(episode(1),), events=events, runs=runs, **inventory)
        )
        assert store.compact(HOUR_BEGAN + 9 * 3600) == len(minutes)
    return migrated


def test_every_statement_of_the_page_runs_and_finds_something(filled: str) -> None:
    assert len(STATEMENTS) == 9
    for statement in STATEMENTS:
        assert rows(filled, statement.replace("%", "%%")), statement


def test_the_page_names_every_table_and_retention() -> None:
    for name in (*metadata.tables, *SETTINGS.values()):
        assert f"`{name}`" in PAGE, name
