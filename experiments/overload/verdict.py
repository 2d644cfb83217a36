"""Was overload chosen, or suffered? What the rows of a run say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.overload.observer import FRESH_SECONDS
from experiments.overload.scenario import CLASSES, QUIET, TALKATIVE, Scenario

#: The age of the newest readable samples may be so many times the time after which probes shed.
_AGE_BOUND = 2.0


def judge(scenario: Scenario, rows: Sequence[dict[str, Any]], final: dict[str, Any]) -> dict[str, Any]:
    """The figures of a run and its ``failures``; it has passed without any."""
    high = [row for row in rows if row["high"]]
    after = [row for row in rows[rows.index(high[-1]) + 1 :] if not row["high"]]
    made, shed = sum(final["made"].values()), sum(final["shed"].values())
    figures = {
        "samples_made": made,
        "samples_applied": final["applied"],
        "samples_shed": shed,
        "samples_lost": final["lost"],
        "samples_dropped": final["dropped"],
        "samples_unaccounted": made - final["before"] - final["applied"] - final["lost"],
        "shed_share": {kind: round(final["shed"][kind] / max(1, final["made"][kind]), 4) for kind in CLASSES},
        "worst_age_p99_seconds": {kind: _worst(rows, f"age_{kind}") for kind in CLASSES},
        "worst_freshness_p99_seconds": {kind: _worst(rows, f"freshness_{kind}") for kind in CLASSES},
        "offered_over_capacity": round(1.0 / scenario.capacity, 3),
        "first_shed_after_seconds": _first(high, high[0]["seconds"] - 1.0),
        "normal_again_after_seconds": _normal(after, high[-1]["seconds"]),
    }
    return figures | {"failures": _failures(scenario, figures, final)}


def _failures(scenario: Scenario, figures: dict[str, Any], final: dict[str, Any]) -> list[str]:
    bound = _AGE_BOUND * scenario.shed_after
    found = [
        f"the newest readable samples of {kind} hosts were {age:.1f} s old: more than {bound:g} s"
        for kind, age in figures["worst_age_p99_seconds"].items()
        if age > bound
    ]
    if not final["shed"][TALKATIVE]:
        found.append("nothing was shed")
    if figures["shed_share"][QUIET] * 10.0 > figures["shed_share"][TALKATIVE]:
        found.append(f"the quiet hosts shed as well: {figures['shed_share']}")
    if figures["samples_lost"] != figures["samples_shed"] or figures["samples_dropped"]:
        found.append(f"{figures['samples_shed']} samples were shed and {figures['samples_lost']} counted as lost")
    if figures["samples_unaccounted"] or not final["drained"]:
        found.append(f"{figures['samples_unaccounted']} samples are not accounted for")
    if figures["normal_again_after_seconds"] is None:
        found.append("it did not return to normal")
    return found


def _worst(rows: Sequence[dict[str, Any]], name: str) -> float:
    return max((row[name]["p99"] for row in rows if row[name]["p99"] is not None), default=0.0)


def _first(high: Sequence[dict[str, Any]], began: float) -> float | None:
    found = next((row["seconds"] for row in high if row["shed_share_talkative"]), None)
    return None if found is None else round(found - began, 1)


def _normal(after: Sequence[dict[str, Any]], fell: float) -> float | None:
    """Seconds from the fall of the load until nobody sheds any more, for good, and everything is fresh."""
    normal = None
    for row in after:
        calm = all(
            not row[f"shed_share_{kind}"] and not row[f"shedding_{kind}"] and row[f"age_{kind}"]["p99"] < FRESH_SECONDS
            for kind in CLASSES
        )
        if not calm:
            normal = None
        elif normal is None:
            normal = round(row["seconds"] - fell, 1)
    return normal
