"""Two machines of one name: ``status`` says which machine has reported last."""

from __future__ import annotations

import pytest

from acquisition.snapshot.reconcile.balance import Source, balance
from acquisition.status.finding import STALE, of_hosts
from acquisition.wire.position import CONTESTED, Position
from acquisition.wire.status import Status

MACHINE = "machine id 4f, boot id 9b"


@pytest.mark.parametrize(("said", "told"), [({"machine": MACHINE}, MACHINE), ({}, ""), (None, "")])
def test_status_says_which_machines_have_one_name(said: object, told: str) -> None:
    row = balance(Source(7, "web", 3, "reported", 0.1), None, Position(1, 5, 5, 99.9, 1.0, CONTESTED), b"0-0")
    (finding,) = (
        each
        for each in of_hosts([row, row], {7: Status("web", 99.9, {}, {"probe": said})}, 100.0, 10.0)
        if "two senders use this name" in each.text
    )
    assert (finding.kind, finding.about) == (STALE, "host web")
    assert finding.text.endswith(f"one of them: {told}" if told else "([host] name)")
