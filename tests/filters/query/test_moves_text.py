"""``query moves`` while nobody can be judged, and what it says of what is not moved."""

from __future__ import annotations

from acquisition.config.decisions import Decisions
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.migrations import Log, Migrations
from filters.decisions.picture import Picture
from filters.documents.verdicts import hot_document, moves_document
from filters.query.decisions_command import move_lines
from tests.support.pictures import host, picture, vm

HOT = host("hot", [vm("a", 2.0, 4), vm("b", 2.0, 2)], cpu=0.97)


def decided(seen: Picture) -> Decided:
    return decide(seen, method_of(Decisions()), Log(Migrations(), 1000.5))


def test_no_tick_is_named_while_blind() -> None:
    blind = decided(picture(HOT)._replace(tick=0, blind="no host is visible"))
    first, second, *_ = move_lines(blind)
    assert first.startswith("no current tick · rule ")
    assert second == "no moves are proposed: no host is visible"
    assert (moves_document(blind).tick, hot_document(blind).tick) == (None, None)


def test_what_was_considered_and_not_moved_is_named() -> None:
    found = decided(picture(HOT))
    assert found.plan is not None
    assert found.plan.refusals
    names = {(each.vm or each.host).name for each in found.plan.refusals}
    _, summary, *_ = move_lines(found)
    assert " · considered and not moved: 1 " in summary
    assert all(name in summary.partition("considered")[2] for name in names)
    assert moves_document(found).tick == 1000
