"""What people should know of figures: those that do not come, and those that got worse."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from acquisition.status.finding import NOTE, STALE, Finding
from acquisition.wire.regressions import Regression
from acquisition.wire.status import Status

_NO_VALUES = "{count} of {all} probes get no values of it, such as that of host {host}: {problem}"


def of_sources(reports: Collection[Status]) -> list[Finding]:
    """Resource sets whose source gives nothing, in one line each for all probes, with one reason."""
    seen: dict[str, int] = {}
    failing: dict[str, list[tuple[str, str]]] = {}
    for report in reports:
        modules = report.rest.get("modules")
        for name, module in modules.items() if isinstance(modules, dict) else ():
            problem = module.get("problem") if isinstance(module, dict) else None
            seen[name] = seen.get(name, 0) + 1
            if problem and isinstance(problem, str):
                failing.setdefault(name, []).append((report.host_name, problem))
    return [
        Finding(STALE, f"set {name}", _NO_VALUES.format(count=len(rows), all=seen[name], host=host, problem=problem))
        for name, rows in failing.items()
        for host, problem in rows[:1]
    ]


_WORSE = "{metric} of {entity} is {change} than usual since {since} UTC; by jitter once in {odds:,.0f} times{rest}"
_LEAST_CHANCE = 1e-12  #: that is worth a word


def of_regressions(rows: Sequence[Regression]) -> list[Finding]:
    """Figures that got worse, the largest change first: one line for each host and metric, with its largest one."""
    groups: dict[tuple[str, str], list[Regression]] = {}
    for row in rows:
        groups.setdefault((row.host, row.metric), []).append(row)
    return [Finding(NOTE, f"host {host}", _of_worse(*found)) for (host, _), found in groups.items()]


def _of_worse(first: Regression, *others: Regression) -> str:
    names = ", ".join(other.entity for other in others)
    return _WORSE.format(
        metric=first.metric, entity=first.entity,
        change=f"{abs(first.change):.1%} {'more' if first.change > 0 else 'less'}",
        since=time.strftime("%Y-%m-%d %H:%M", time.gmtime(first.since)), odds=1 / max(first.chance, _LEAST_CHANCE),
        rest=f"; so are {names}" if names else "",
    )  # fmt: skip
