"""The filter of a small pipeline dies, and nobody says that hosts are down, or that all is well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from acquisition.snapshot import states
from experiments.blindness.pipeline import Pipeline
from experiments.harness import surfaces
from experiments.harness.answers import Said, Truth, falsely_down, is_calm, summary
from tests.support.waiting import eventually

HOSTS = 6
UNHELD = states.CAUSES[states.UNHELD]
_PATIENCE = 90.0  #: seconds, of a busy machine
#: More turns than a surface has questions.
_TURNS = 8


def test_without_a_filter_every_answer_says_that_it_cannot_see(tmp_path: Path) -> None:
    """What is false is never said: while blindness begins, while it lasts, and while it ends."""
    said: list[Said] = []

    def heard(ask: Callable[[], Said]) -> Said:
        said.append(ask())
        return said[-1]

    with Pipeline(tmp_path, HOSTS) as pipeline:
        pipeline.wait_until_all_current()
        readers = surfaces.reader_surfaces(pipeline.addresses).values()
        service = surfaces.http_surface(pipeline.port)
        command = surfaces.command_surface(pipeline.config, pipeline.addresses)
        pipeline.kill_filter()
        for ask in (*readers, service):
            eventually(lambda: UNHELD in heard(ask).told, _PATIENCE)  # noqa: B023 - called here
        blind = [heard(ask) for ask in (*readers, *[service] * _TURNS, *[command] * 4)]
        assert all("no host can be seen" in each.told or "exit code 69" in each.told for each in blind), blind
        assert {"/v1/hot", "/v1/moves", "query hot", "query moves", "top --json"} <= {each.surface for each in blind}
        pipeline.start_filter()
        for ask in (*readers, service):
            eventually(lambda: not heard(ask).told, _PATIENCE)  # noqa: B023 - called here
    truth = Truth(HOSTS)
    assert [each for each in said if falsely_down(each, truth) or is_calm(each, truth)] == []


def test_what_is_false_is_counted() -> None:
    truth = Truth(3, frozenset(["c"]), (3.0, 9.0))
    assert falsely_down(Said("x", 1.0, {"a": "down", "b": "current", "c": "down"}), truth) == ["a"]
    assert is_calm(Said("x", 1.0, {"a": "late", "b": "late", "c": "late"}, 0), truth)
    assert is_calm(Said("x", 1.0, {"a": "current"}, 1), truth), "two are missing"
    assert not is_calm(Said("x", 1.0, {"a": "late", "b": "late", "c": "late"}, 0, "no host can be seen"), truth)
    assert is_calm(Said("x", 4.0), truth)
    assert not is_calm(Said("x", 2.0), truth)
    assert not is_calm(Said("x", 4.0, told="no picture", refused=True), truth)
    found = summary(
        [Said("x", 1.0, {"a": "late"}, 0), *(Said("x", at, {"a": "down"}, 0, "two") for at in (2.0, 3.0))], truth
    )
    counted = {"answers": 3, "down": 2, "most_down": 1, "calm": 1, "told": "two"}
    assert found == {"x": {**counted, "first_down": {"seconds": 2.0, "hosts": ["a"]}}}
