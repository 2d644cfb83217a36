"""What the heat map is told: missing is null, hosts that are not current have no figures, names are told apart."""

from __future__ import annotations

from filters.decisions.picture import CPU, DOWN, LATE, MEMORY, Host, Picture
from filters.decisions.verdict import SATURATED, SUSPECT, Outcome, Verdict
from filters.documents.heat import heat_document, roster_document


def host(name: str, state: str = "current", age: float | None = 1.04) -> Host:
    return Host(f"id-{name}", name, state, age)


HOSTS = (host("late", LATE), host("blind"), host("down", DOWN, None), host("busy"))
KNOWN = {"id-blind": {MEMORY: 0.25}, "id-busy": {CPU: 0.9316, MEMORY: 0.25}}
VERDICTS = {
    "id-busy": Verdict(Outcome.HOT, ""),
    "id-blind": Verdict(Outcome.ABSTAINED, ""),
    "id-late": Verdict(Outcome.NOT_HOT, ""),
}


def test_columns_are_in_the_order_of_names_and_missing_is_null() -> None:
    found = heat_document(7, Picture(7, 0.0, HOSTS), VERDICTS, KNOWN)  # blind, busy, down, late
    assert (found.states, found.outcomes) == ("ccdl", "ah?n")
    assert found.cpu == [None, 932, None, None]
    assert found.memory == [250, 250, None, None]
    assert found.network == [None] * 4
    assert found.age_seconds == [1.0, 1.0, None, 1.0]


def test_each_outcome_has_its_letter() -> None:
    verdicts = {each.id: Verdict(outcome, "") for each, outcome in zip(HOSTS, (SUSPECT, SATURATED), strict=False)}
    assert heat_document(7, Picture(7, 0.0, HOSTS), verdicts, KNOWN).outcomes == "b??s"


def test_roster_tag_changes_only_with_hosts_and_names() -> None:
    first = heat_document(7, Picture(7, 0.0, HOSTS), VERDICTS, KNOWN)
    roster = roster_document(7, Picture(7, 0.0, HOSTS))
    assert (roster.roster, roster.names) == (first.roster, ["blind", "busy", "down", "late"])
    later = heat_document(8, Picture(8, 1.0, (host("late"), *HOSTS[1:])), {}, {})
    assert later.roster == first.roster
    assert heat_document(8, Picture(8, 1.0, HOSTS[1:]), {}, {}).roster != first.roster
    renamed = (HOSTS[0]._replace(name="lately"), *HOSTS[1:])
    assert heat_document(8, Picture(8, 1.0, renamed), {}, {}).roster != first.roster
    assert heat_document(8, Picture(8, 1.0, (HOSTS[0]._replace(name="no \udcff text"),)), {}, {}).cpu == [None]
