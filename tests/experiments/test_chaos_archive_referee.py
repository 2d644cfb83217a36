"""The referee of the archive finds what is equal equal, and every difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from acquisition.snapshot.reconcile.registered import ARCHIVE, Registered
from acquisition.wire import frame as wire
from acquisition.wire.frame import Frame
from experiments.chaos import archive_referee
from experiments.chaos.archive_referee import Verdict
from experiments.chaos.host_log import Note
from experiments.chaos.load import Load
from experiments.emulation.workload import host_number
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.migrating import migrate
from filters.archive.database.store import open_store
from filters.archive.minutes.minute import Minute
from filters.archive.minutes.values import Advance, Batch, Event, MinuteMatrix, Series, Statistic

LOAD = Load(2, 7, 3, 1.0, 5, 0.2)
BEGAN = 1_700_000_040
LOGS: Mapping[int, Sequence[Note]] = {
    host: [
        Note(n, len(LOAD.rows(host, n)) * LOAD.metrics, 1, n + 1, 100.0 + n, BEGAN + n + (900.0 if n >= 90 else 0.3))
        for n in range(100)
    ]
    for host in range(2)
}
MADE = sum(note.samples for notes in LOGS.values() for note in notes)
OFFSET = BEGAN - 100.0


def minutes(lacking: int = -1) -> list[MinuteMatrix]:
    """What an archiver makes of all frames but those of a clock far ahead and one."""
    found: dict[tuple[int, int], Minute] = {}
    for host, notes in LOGS.items():
        for note in notes[:90]:
            rows = LOAD.rows(host, note.number)
            values, codes = LOAD.bytes_of(host, note.number, len(rows))
            tick = int(note.wall)
            sent = Frame(
                wire.KIND_SAMPLES, LOAD.schema, host_number(host), LOAD.set_id, len(rows), LOAD.metrics, 1.0, 1,
                note.sequence, 1, 0, tick, note.wall, note.monotonic, LOAD.ids(host, rows), values, codes,
            )  # fmt: skip
            key = host, tick // 60 * 60
            series = Series(host_number(host), LOAD.set_id, 1, LOAD.schema)
            one = found.setdefault(key, Minute(series, key[1], LOAD.metrics, b"1-0", False))
            if (host, note.number) != (0, lacking):
                one.add(sent, note.wall, 0)
    return [one.matrix(()) for one in found.values()]


def judged(tmp_path: Path, made: Sequence[MinuteMatrix], gap: int = 0, archived: int = MADE) -> Verdict:
    url = f"sqlite:///{tmp_path}/archive.db"
    engine = make_engine(parse_url(url))
    with engine.begin() as connection:
        migrate(connection)
    engine.dispose()
    events = (Event(BEGAN, "gap", None, None, {"samples": gap}),) if gap else ()
    with open_store(url) as store:
        assert store.commit(Batch((Advance(1, 0, 5, "1-1"),), (*made,), events=events))
    return archive_referee.judge(LOAD, LOGS, OFFSET, url, Registered(ARCHIVE, 1, 0.0, 0, archived, gap, 0))


def test_what_is_equal_is_found_equal_and_clocks_far_off_are_left_out(tmp_path: Path) -> None:
    found = judged(tmp_path, minutes())
    assert found.problems == ()
    assert found.samples + found.left_out == MADE
    assert found.left_out == sum(note.samples for notes in LOGS.values() for note in notes[90:])


def test_what_is_missing_must_be_an_event(tmp_path: Path) -> None:
    lost = LOGS[0][33].samples
    (tmp_path / "told").mkdir()
    told = judged(tmp_path / "told", minutes(lacking=33), lost, MADE - lost)
    assert (told.problems, told.missing, told.gap) == ((), lost, lost)
    found = judged(tmp_path, minutes(lacking=33), 0, MADE - lost)
    assert [text.partition(" ")[2] for text in found.problems] == [
        f"samples were made; the archive's books say {MADE - lost} archived, 0 gaps, 0 open",
        "samples are not in the archive, 0 by its own account",
    ]


@pytest.mark.parametrize("statistic", [Statistic.VALID, Statistic.MEAN, Statistic.DEVIATION, Statistic.LOW])
def test_every_difference_is_found(tmp_path: Path, statistic: Statistic) -> None:
    first, *others = minutes()
    values = first.values.copy()
    values[statistic, 2, 1] += 1.0
    (problem,) = judged(tmp_path, [first._replace(values=values), *others]).problems
    assert ("valid" if statistic is Statistic.VALID else statistic.name.lower()) in problem


def test_what_is_doubled_is_found(tmp_path: Path) -> None:
    first, *others = minutes()
    values = first.values.copy()
    values[Statistic.COUNT] += 1
    (problem,) = judged(tmp_path, [first._replace(values=values), *others]).problems
    assert "samples too many" in problem
    strange = first._replace(ids=first.ids + np.uint64(1))
    ids, wanted = archive_referee.expected(LOAD, 0, LOGS[0])
    assert archive_referee.compare(ids, wanted, strange) == (0, ["it has entities that were not there"])
