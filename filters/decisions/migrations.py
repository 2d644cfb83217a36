"""Migration log as reported by schedulers, and its consequences (pure).

A scheduler reports that it has ``started`` a migration, and that it ``finished`` or ``failed``. ``append``
takes one report; a report that contradicts the log changes nothing and is reported. Replaying the same
reports with the same times gives the same state, so all readers of the log agree about cool-downs and moves
in progress. Times are from the log's own clock (the shard that keeps it), never a host's or a scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

STARTED = "started"
FINISHED = "finished"
FAILED = "failed"
PHASES = (STARTED, FINISHED, FAILED)

#: The same end of the same migration, reported again within this many seconds, is a repeated report.
_REPEAT_SECONDS = 60.0


class Report(NamedTuple):
    """Migration report of a scheduler. ``vm``: stable id of the VM; ``source``, ``destination``: host ids."""

    vm: str
    source: str
    destination: str
    phase: str
    reason: str = ""


class Migration(NamedTuple):
    """``started`` is None if only the end was reported, ``ended`` None while it lasts;
    ``outcome`` is ``started``, ``finished`` or ``failed``."""

    vm: str
    source: str
    destination: str
    started: float | None
    ended: float | None
    outcome: str
    reason: str = ""


class Migrations(NamedTuple):
    """The newest migration of each VM, by VM id; ``given_up_seconds`` after its start, one without a reported end
    counts as failed. ``ends``: end times by host of other migrations by which a VM left or reached it for good: earlier
    ones of the same VMs, and unreported ones (``filters.decisions.sightings``). ``released``: VMs that several hosts
    have reported for so long that it no longer keeps them from moving."""

    newest: Mapping[str, Migration] = {}
    given_up_seconds: float = 600.0
    ends: Mapping[str, float] = {}
    released: frozenset[str] = frozenset()

    def of(self, vm: str) -> Migration | None:
        """The newest migration of a VM."""
        return self.newest.get(vm)

    def in_progress(self, now: float) -> Iterator[Migration]:
        """Started, not ended, and not given up on."""
        return (each for each in self.newest.values() if self._lasts(each, now))

    def lasts(self, vm: str, now: float) -> bool:
        """Whether a VM's newest migration is in progress."""
        newest = self.newest.get(vm)
        return newest is not None and self._lasts(newest, now)

    def touched(self) -> dict[str, float]:
        """When a VM last left or reached a host for good, by host; only hosts in this log."""
        ends = dict(self.ends)
        for each in self.newest.values():
            _put_end(ends, each)
        return ends

    def rested(self, vm: str, now: float) -> float | None:
        """Seconds since a VM's newest migration ended or was given up on; None: none has ended."""
        newest = self.newest.get(vm)
        if newest is None or self._lasts(newest, now):
            return None
        ended = newest.ended if newest.ended is not None else (newest.started or 0.0) + self.given_up_seconds
        return max(0.0, now - ended)

    def _lasts(self, each: Migration, now: float) -> bool:
        return each.ended is None and each.started is not None and now - each.started <= self.given_up_seconds


class Log(NamedTuple):
    """The state at ``now`` (seconds since 1970, the shard's clock). ``problems`` are entries that contradict
    earlier ones or are not reports; they changed nothing."""

    migrations: Migrations
    now: float
    problems: tuple[str, ...] = ()


def append(state: Migrations, report: Report, at: float) -> tuple[Migrations, str]:
    """The state after a report received at ``at`` (seconds), and the error in the report; the same
    state if it changes nothing, see ``follows``."""
    made, problem = follows(state, report, at)
    if made is None:
        return state, problem
    ends = dict(state.ends)
    _put_end(ends, state.newest.get(made.vm))
    return state._replace(newest={**state.newest, made.vm: made}, ends=ends), ""


def replay(reports: Iterable[tuple[str, Report, float]], given_up_seconds: float) -> tuple[Migrations, tuple[str, ...]]:
    """The state after all reports, (name, report, time) in order, and the errors in them, with their names."""
    newest, ends = dict[str, Migration](), dict[str, float]()
    state, problems = Migrations(newest, given_up_seconds, ends), list[str]()
    for name, report, at in reports:
        made, problem = follows(state, report, at)
        if made is not None:
            _put_end(ends, newest.get(made.vm))
            newest[made.vm] = made
        elif problem:
            problems.append(f"{name}: {problem}")
    return state, tuple(problems)


def follows(state: Migrations, report: Report, at: float) -> tuple[Migration | None, str]:
    """The new migration by a report, and the error in the report.

    There is no new migration if the report contradicts the log, nor if it repeats a known one, which is not
    an error: a scheduler may resend an interrupted request.
    """
    problem = _nonsense(report)
    if problem:
        return None, problem
    newest = state.newest.get(report.vm)
    open_now = newest is not None and state._lasts(newest, at)
    if report.phase == STARTED:
        if newest is not None and open_now:
            return None, "" if _same_way(newest, report) else _contradiction(newest, "is already migrating")
        return Migration(*report[:3], at, None, STARTED, report.reason), ""
    if newest is not None and open_now:
        if not _same_way(newest, report):
            return None, _contradiction(newest, "is migrating")
        return newest._replace(ended=at, outcome=report.phase, reason=report.reason), ""
    if newest is not None and _repeats(newest, report, at):
        return None, ""
    return Migration(*report[:3], None, at, report.phase, report.reason), ""


def _put_end(ends: dict[str, float], each: Migration | None) -> None:
    """Record the end of a migration by which a VM left its source and reached its destination."""
    if each is not None and each.ended is not None and each.outcome == FINISHED:
        for host in (each.source, each.destination):
            ends[host] = max(each.ended, ends.get(host, each.ended))


def _nonsense(report: Report) -> str:
    if report.phase not in PHASES:
        return f"invalid phase {report.phase!r}: expected one of {', '.join(PHASES)}"
    for name, value in (("vm", report.vm), ("source", report.source), ("destination", report.destination)):
        if not value:
            return f"{name} is empty"
    return f"source and destination are the same host {report.source}" if report.source == report.destination else ""


def _same_way(one: Migration, report: Report) -> bool:
    return one[:3] == report[:3]


def _repeats(one: Migration, report: Report, at: float) -> bool:
    recent = one.ended is not None and at - one.ended <= _REPEAT_SECONDS
    return recent and _same_way(one, report) and one.outcome == report.phase


def _contradiction(known: Migration, what: str) -> str:
    return f"{known.vm} {what} from {known.source} to {known.destination}"
