"""Answers of readers, and whether they are false (pure).

A false answer calls a live host down, or does not report blindness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Said(NamedTuple):
    """One answer: the ``states`` of hosts by name as far as it names them, the number ``judged`` (None: not stated),
    and the texts ``told`` about missing data. ``refused`` is an answer with nothing but those."""

    surface: str
    at: float  #: seconds since the fault began
    states: Mapping[str, str] = {}
    judged: int | None = None
    told: str = ""
    refused: bool = False


class Truth(NamedTuple):
    """Truth during a fault: only the probes of ``gone`` hosts are dead. ``blind`` are the seconds between which no host
    can be seen, for answers without the number of judged hosts."""

    hosts: int
    gone: frozenset[str] = frozenset()
    blind: tuple[float, float] | None = None


def falsely_down(said: Said, truth: Truth) -> list[str]:
    """Live hosts reported as down."""
    return sorted(host for host, state in said.states.items() if state == "down" and host not in truth.gone)


def is_calm(said: Said, truth: Truth) -> bool:
    """Whether no host is seen, or some are missing, without a report of it."""
    if said.refused or said.told:
        return False
    if said.states and len(said.states) < truth.hosts:
        return True
    if said.judged is None:
        return truth.blind is not None and truth.blind[0] < said.at < truth.blind[1]
    return said.judged == 0


def summary(answers: Sequence[tuple[Said, Truth]]) -> dict[str, dict[str, Any]]:
    """By surface, from answers each with its truth: their number; in how many a live host was down (and when and which
    in the first of these), in how many blindness was not reported, and the last report of it."""
    found: dict[str, dict[str, Any]] = {}
    for said, truth in answers:
        row = found.setdefault(said.surface, {"answers": 0, "down": 0, "most_down": 0, "calm": 0, "told": ""})
        wrong = falsely_down(said, truth)
        if wrong and not row["down"]:
            row["first_down"] = {"seconds": round(said.at, 3), "hosts": wrong}
        row["answers"] += 1
        row["down"] += bool(wrong)
        row["most_down"] = max(row["most_down"], len(wrong))
        row["calm"] += is_calm(said, truth)
        row["told"] = said.told or row["told"]
    return found


def told(texts: Iterable[str]) -> str:
    """Texts of an answer, in one line."""
    return "; ".join(text for text in texts if text)
