"""Series of the archive that got worse become one event and a finding, whatever restarts, and are over in the end."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from acquisition.config.loader import parse
from acquisition.config.regression import Regression
from acquisition.errors import ConfigError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.status.finding import NOTE, of_regressions
from acquisition.wire import keys, regressions
from filters.archive.database.regressions import History, Judged, Key, judge, tell
from filters.archive.database.shift import Values
from filters.archive.database.store import Store, open_store
from filters.archive.minutes.values import (
    DAY,
    Advance,
    Batch,
    EntityEpoch,
    HostRow,
    MetricDefinition,
    MinuteMatrix,
    Series,
)
from probes.metrics import HOST, STORAGE
from tests.filters.archive.conftest import bring_up
from tests.support.archive_rows import rollup

TAGS = keys.tags(keys.DEFAULT_PARTITIONS)
NAME, POINTS = "alpha", ("write-64k", "write-512k")
NUMBER = host_id(NAME)
NOW = float(int(time.time()) // DAY * DAY + 9 * 3600)
BOOT, DAYS = 30, 36  #: the host was booted on a day, after which there are six
SETTINGS = Regression(metrics={"storage.throughput_*": -0.05, "host.cpu_system_ratio": 0.1})
THROUGHPUT, SYSTEM = STORAGE.metrics[0], next(one for one in HOST.metrics if one.name == "cpu_system_ratio")


class Days:
    """A host that measured its storage every day; figures by day, and the points of storage."""

    def __init__(self) -> None:
        jitter: Values = 1.0 + 0.01 * np.random.default_rng(3).standard_normal((DAYS, 3))
        self.throughput, self.system = 1e8 * jitter[:, :2], 0.05 * jitter[:, 2:]

    def write(self, store: Store) -> None:
        """Into the database; the last day was yesterday."""
        made: dict[str, tuple[object, ...]] = dict.fromkeys(("minutes", "hosts", "entities", "metrics"), ())
        for day in range(DAYS):
            at = int(NOW) // DAY * DAY - (DAYS - day) * DAY + 3 * 3600
            boot = str(day >= BOOT)  # another entity
            for batch in (
                self._batch(day, at, [("storage", point, "") for point in POINTS], THROUGHPUT, self.throughput),
                self._batch(day, at, [("host", NAME, boot)], SYSTEM, self.system),
            ):
                made = {name: rows + getattr(batch, name) for name, rows in made.items()}
        assert store.commit(Batch((Advance(3, 0, 1, "1-1"),), **made))  # type: ignore[arg-type]
        while store.pass_on(NOW) + store.compact(NOW):
            pass

    def _batch(self, day: int, at: int, what: list[tuple[str, str, str]], metric: Metric, values: Values) -> Batch:
        name, schema = what[0][0], schema_hash((metric,))
        ids = [entity_id(*one) for one in what]
        order = np.argsort(np.array(ids, np.uint64))
        figures = rollup(values[day].astype(np.float32)[order].reshape(1, -1, 1))
        number = resource_set_id(name)
        minute = MinuteMatrix(Series(NUMBER, number, 1, schema), at, at, np.array(ids, np.uint64)[order], figures)
        entities = [
            EntityEpoch(key, NUMBER, number, kind, stable, epoch, stable, at, at + 60.0)
            for key, (kind, stable, epoch) in zip(ids, what, strict=True)
        ]
        definition = MetricDefinition(schema, 0, name, *metric)
        return Batch((), (minute,), hosts=(HostRow(NUMBER, NAME, at, at + 60.0),), entities=(*entities,),
                     metrics=(definition,))  # fmt: skip


def judged(url: str, days: Days) -> Judged:
    with open_store(url) as store:
        days.write(store)
        return store.judge(SETTINGS, NOW)


def test_series_that_got_worse_is_found_in_the_archive(migrated: str) -> None:
    days = Days()
    days.throughput[BOOT + 1 :, 1] *= 0.9
    days.system[BOOT:] *= 1.2
    found = judged(migrated, days)
    assert len(found.series) == 3
    worse = {one.entity: (one, details) for _, one, details in found.worse.values()}
    assert set(worse) == {"write-512k", NAME}, "the host has another entity since it was booted"
    one, details = worse["write-512k"]
    assert one.change == pytest.approx(-0.1, abs=0.01)
    assert one.since == NOW // DAY * DAY - (DAYS - BOOT - 1) * DAY + 3 * 3600
    assert (details["runs"], details["learned"], details["metric"]) == (5, 31, "storage.throughput_bytes_per_second")
    assert details["confidence"] == pytest.approx(1.0, abs=1e-5)  # type: ignore[arg-type]
    assert details["baseline"] == pytest.approx(1e8, rel=0.01)  # type: ignore[arg-type]
    assert worse[NAME][0].change == pytest.approx(0.2, abs=0.02)
    with open_store(migrated) as store:
        only = Regression(metrics=SETTINGS.metrics, entities=["write-6*"])
        assert len(store.judge(only, NOW).series) == 1
        assert not store.judge(Regression(metrics={"vms.*": 0.1}), NOW).series
        assert not store.judge(SETTINGS, NOW + 5 * DAY).series, "a series that goes on no more is over"


def events(cluster: Cluster) -> list[happenings.Entry]:
    """Those of the host; an archiver writes them into the database (test_archive_events.py)."""
    stream = keys.events(TAGS[keys.partition_of(NUMBER, len(TAGS))])
    found = [happenings.decode(*entry) for entry in cluster.call(stream, "XRANGE", stream, "-", "+")]
    return [one for one in found if one is not None]


def test_change_is_one_event_and_a_finding_until_it_is_over(cluster: Cluster, tmp_path: Path) -> None:
    url = bring_up(f"sqlite:///{tmp_path}/archive.db")
    days = Days()
    days.throughput[BOOT:] *= [0.9, 0.8]
    found = judged(url, days)
    for _ in range(2):  # of two archivers, or an hour later
        tell(cluster, TAGS, found, NOW)
    (finding,) = of_regressions(regressions.fresh(happenings.read_told(cluster, TAGS).values(), NOW + DAY))
    assert (finding.kind, finding.about) == (NOTE, "host alpha")
    assert finding.text.startswith("storage.throughput_bytes_per_second of write-512k has been 20.")
    assert finding.text.endswith("; so are write-64k")
    assert [(one.kind, one.host) for one in events(cluster)] == [("regression", NUMBER)] * 2
    assert {one.details["entity"] for one in events(cluster)} == set(POINTS)
    tell(cluster, TAGS, Judged(NOW, frozenset(list(found.worse)[:1]), {}), NOW)
    told = happenings.read_told(cluster, TAGS).values()
    assert len(regressions.fresh(told, NOW)) == 1, "what was not judged is not over"
    assert regressions.fresh(told, NOW + 4 * DAY) == [], "unless nobody says so any more"
    assert [one.kind for one in events(cluster)] == ["regression", "regression", "regression_over"]


def test_names_that_others_chose_reach_the_shards_printable(cluster: Cluster) -> None:
    key = Key(NUMBER, "storage", "a\udcff\n", "storage.x")
    history = History(NAME, "\x1b[2J\udcff", -0.05, (100.0,) * 40 + (50.0,) * 5, tuple(map(float, range(45))))
    tell(cluster, TAGS, judge({key: history}, 86400.0, NOW), NOW)
    (event,) = events(cluster)
    assert all(str(event.details[name]).isprintable() for name in ("entity", "stable"))
    (finding,) = of_regressions(regressions.fresh(happenings.read_told(cluster, TAGS).values(), NOW))
    assert finding.text.isprintable()


def test_what_cannot_be_compared_is_refused() -> None:
    for text, said in (
        ("x = 0.1", "invalid metric 'x': expected SET.METRIC"),
        ('"host.x" = 0', "expected a non-zero change"),
    ):
        with pytest.raises(ConfigError, match=said):
            parse(f"[regression.metrics]\n{text}\n")
