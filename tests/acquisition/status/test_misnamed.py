"""A host that takes the name of another is found by its id."""

from __future__ import annotations

import pytest

from acquisition.model.identity import host_id
from acquisition.snapshot.reconcile.balance import Source, balance
from acquisition.status.finding import STALE, of_hosts
from acquisition.wire.position import MISNAMED, Position
from acquisition.wire.status import Status

EVIL = host_id("evil")


@pytest.mark.parametrize(
    ("called", "said", "flags", "told"),
    [
        (f"{EVIL:016x}", "web-0", 0, "claims the name 'web-0' of another host"),
        ("evil", "evil", MISNAMED, "claims in its tables the name of another host"),
        ("", None, MISNAMED, "claims in its tables the name of another host"),
        ("evil", "evil", 0, ""),
        ("", None, 0, ""),
    ],
)
def test_status_says_who_takes_the_name_of_another(called: str, said: str | None, flags: int, told: str) -> None:
    row = balance(Source(EVIL, called, 3, "reported", 0.1), None, Position(1, 5, 5, 99.9, 1.0, flags), b"0-0")
    reports = {} if said is None else {EVIL: Status(said, 99.9, {}, {})}
    found = [each for each in of_hosts([row, row], reports, 100.0, 10.0) if "of another host" in each.text]
    assert [(each.kind, each.about) for each in found] == (
        [(STALE, f"host {called or f'{EVIL:016x}'}")] if told else []
    )
    assert all(each.text.startswith(told) for each in found)
