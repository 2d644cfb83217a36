"""Migrations that are seen and not reported: their hosts settle when they have ended."""

from __future__ import annotations

import pytest

from acquisition.config.decisions import Policy
from filters.decisions.migrations import Log, Migrations
from filters.decisions.picture import Picture, Transit
from filters.decisions.sightings import Sightings, follow, joined
from tests.support.pictures import host, picture, vm

POLICY = Policy()
OUT, BACK = Transit("uuid-m", "a", "b", "a"), Transit("uuid-m", "b", "a", "a")
ABORTED = Transit("uuid-m", "a", "c", "a")


def seen(place: str, *transits: Transit) -> Picture:
    """The VM on one host, and who else reports it."""
    guests = [vm("m", 1.0, 2)]
    return picture(*(host(name, guests if name == place else []) for name in ("a", "b", "c")))._replace(
        transits=transits
    )


def ends(*pictures: tuple[float, Picture]) -> dict[str, float]:
    known = Sightings()
    for at, each in pictures:
        known = follow(known, each, POLICY, at)
    return joined(Log(Migrations(), pictures[-1][0]), known).migrations.touched()


def test_what_was_seen_to_move_settles_both_hosts() -> None:
    under_way = [(10.0, seen("a", OUT)), (11.0, seen("a", OUT)), (12.0, seen("b", BACK))]
    assert ends(*under_way) == {}
    assert ends(*under_way, (13.0, seen("b"))) == {"a": 13.0, "b": 13.0}
    assert ends(*under_way, (13.0, seen("b")), (13.0 + POLICY.settle_seconds, seen("b"))) == {}


def test_whoever_looks_late_in_a_migration_knows_where_it_came_from() -> None:
    assert ends((12.0, seen("b", BACK)), (13.0, seen("b"))) == {"a": 13.0, "b": 13.0}


def test_one_that_is_aborted_settles_nobody() -> None:
    assert ends((10.0, seen("a", OUT)), (11.0, seen("a"))) == {}
    assert ends((10.0, seen("a", OUT, ABORTED)), (11.0, seen("a"))) == {}


def released(*pictures: tuple[float, Picture]) -> frozenset[str]:
    known = Sightings()
    for at, each in pictures:
        known = follow(known, each, POLICY, at)
    return joined(Log(Migrations(), pictures[-1][0]), known).migrations.released


def test_a_vm_that_is_claimed_on_and_off_is_held_for_a_minute_in_all() -> None:
    claimed, quiet = seen("a", OUT), seen("a")
    assert released((10.0, claimed), (70.0, claimed)) == frozenset()
    assert released((10.0, claimed), (71.0, claimed)) == {"uuid-m"}
    on_and_off = [(10.0, claimed), (50.0, claimed), (55.0, quiet), (60.0, claimed), (62.0, quiet), (71.0, claimed)]
    assert released(*on_and_off) == {"uuid-m"}
    assert released(*on_and_off, (72.0, quiet), (700.0, claimed)) == frozenset()  # long after
    moved = [
        (10.0, claimed),
        (12.0, seen("b", BACK)),
        (13.0, seen("b")),
        (75.0, seen("b", Transit("uuid-m", "b", "a", "b"))),
    ]
    assert released(*moved) == frozenset()  # another migration


@pytest.mark.parametrize(("back", "expected"), [(20.0, {"a": 20.0, "b": 20.0}), (2000.0, {})])
def test_a_vm_that_nobody_reports_is_waited_for(back: float, expected: dict[str, float]) -> None:
    gone = [(10.0, seen("a", OUT)), (11.0, seen("nowhere")), (back - 1.0, seen("nowhere"))]
    assert ends(*gone, (back, seen("b"))) == expected
