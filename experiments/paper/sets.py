"""Figures 8 and 9: a host with a growing number of resource sets.

The limit is a tenth of every resource.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

from experiments.paper import baseline, drawing, product, sampler
from experiments.paper.figure import BASELINE, SHARDPULSE, SYSTEMS, Extent, Figure, Finding, Point, Records
from experiments.paper.systems import DATABASE, PROBE, Load, compare, point, shown

_BASELINE, _BASELINE_QUICK = (1, 2, 4, 8, 16, 32, 64, 128, 256), (1, 8, 32)
_OURS, _OURS_QUICK = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1000), (1, 32, 1000)
LIMIT = 0.1  #: of every resource of a monitored host: the paper's threshold, section 3.2
_PAPER, _GOAL = 32, 1000


def _points(extent: Extent) -> Sequence[Point]:
    return [
        *(
            point(BASELINE, baseline.running, Load(sets=count), count / 8)
            for count in extent.some(_BASELINE, _BASELINE_QUICK)
        ),
        *(point(f"{SHARDPULSE}-real", product.real, Load(sets=count)) for count in extent.some(_OURS, _OURS_QUICK)),
    ]


def within(records: Records, system: str, role: str = PROBE) -> float | None:
    """The largest number of resource sets with every resource within the limit; None if none was measured."""
    used = over_limit(records, system, role)
    return max((sets for sets, over in used.items() if not over), default=0.0) if used else None


def over_limit(records: Records, system: str, role: str) -> dict[float, list[str]]:
    """Resources beyond the limit by measured number of resource sets; an empty list without any."""
    found: dict[float, list[str]] = {}
    for resource in sampler.UNITS:
        for sets, values in records.of(system, role, resource).over("p").items():
            found.setdefault(sets, [])
            if median(values) > LIMIT:
                found[sets].append(resource)
    return found


def _first_over(records: Records, system: str, resource: str) -> str:
    used = over_limit(records, system, PROBE)
    first = min((sets for sets, over in used.items() if resource in over), default=None)
    return "not measured" if not used else f"beyond {max(used):g}" if first is None else f"at {first:g}"


def _shared(records: Records, system: str) -> float | None:
    """The largest number of resource sets within the limit with shared memory counted once."""
    found = {
        sets: median(values) / sampler.MEMORY_BYTES
        for sets, values in records.of(system, PROBE, sampler.PSS).over("p").items()
    }
    return max((sets for sets, used in found.items() if used <= LIMIT), default=0.0) if found else None


def _of_host(records: Records) -> Sequence[Finding]:
    most = {system: within(records, system) for system in SYSTEMS}
    firsts = {
        resource: {system: _first_over(records, system, resource) for system in SYSTEMS} for resource in sampler.UNITS
    }
    of_baseline, ours = most[BASELINE], most[SHARDPULSE]
    return [
        compare(
            "resource sets of a host with every resource within 0.1", str(_PAPER), most,
            None if of_baseline is None else of_baseline >= _PAPER / 2,
            "a Python process with its libraries and a vmstat takes several times as much memory today as in 2011, and "
            "0.1 is still counted of the 2 GB of the paper's machines",
            f"at least {_GOAL:,}", None if ours is None else ours >= _GOAL,
        ),
        compare(
            "the same, with memory that processes share counted once (PSS)", "not given",
            {system: _shared(records, system) for system in SYSTEMS},
        ),
        *(
            compare(
                f"resource sets at which {resource} of the host exceeds 0.1 ({sampler.UNITS[resource]})",
                {"memory": "at 32", "cpu": "at 128", "network": "beyond 256"}[resource], texts,
            )
            for resource, texts in firsts.items()
        ),
    ]  # fmt: skip


def _of_database(records: Records) -> Sequence[Finding]:
    most = {system: within(records, system, DATABASE) for system in SYSTEMS}
    return [
        compare(
            "resource sets of one host with every resource of the database within 0.1", "256 (no signs of congestion)",
            most,
        ),
    ]  # fmt: skip


def _says_host(records: Records) -> tuple[str, str]:
    most = [shown(within(records, system)) for system in SYSTEMS]
    return (
        f"Within a tenth of every resource a host watches {most[0]} resource sets in the baseline and {most[1]} in "
        f"shardpulse, where the paper had {_PAPER}.",
        "The baseline is a Python process and a vmstat for each of them, shardpulse one process for all, which reads "
        "/proc in native code; its resource sets are processes here, as pidstat would watch them.",
    )


def _says_database(records: Records) -> tuple[str, str]:
    cpu = []
    for system in SYSTEMS:
        found = records.of(system, DATABASE, "cpu").over("p")
        cpu.append(f"{shown(median(found[max(found)]))} of a core at {max(found):g}" if found else "not measured")
    return (
        f"The database of one host takes {cpu[0]} resource sets in the baseline and {cpu[1]} in shardpulse.",
        "The baseline sends an INSERT for each resource set and second, shardpulse one frame for all of them.",
    )


def _figure(
    number: int, role: str, who: str, findings: Callable[[Records], Sequence[Finding]],
    says: Callable[[Records], tuple[str, str]],
) -> Figure:  # fmt: skip
    title = f"Figure {number}: resource consumption of {who} (p > 1, h = 1, m = 15)"
    draw = partial(drawing.lines, role=role, parameter="p", label="resource sets p", level=LIMIT)
    needs = (*baseline.NEEDS, sampler.NEEDS)
    return Figure(f"fig{number}", title, "3.3", _points, draw, findings, says, needs)


PROBES_OVER_SETS = _figure(8, PROBE, "several monitor probes", _of_host, _says_host)
DATABASE_OVER_SETS = _figure(9, DATABASE, "the database process", _of_database, _says_database)
