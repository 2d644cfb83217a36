"""Run of one chaos experiment, from start to verdict."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from acquisition.errors import ShardpulseError, TemporaryError
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.reconcile.books import Books
from acquisition.snapshot.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.visibility.roster import KEPT, LOST
from experiments.chaos import archive_referee, installation, observer, referee, schedule, witness
from experiments.chaos.archive_referee import Verdict
from experiments.chaos.fault_runner import Course, FaultRunner
from experiments.chaos.host_log import Note
from experiments.chaos.installation import Installation
from experiments.chaos.observer import Seen
from experiments.chaos.options import Options
from experiments.chaos.referee import Findings
from experiments.chaos.witness import Witness
from experiments.emulation.workload import host_number
from experiments.processes.control import ChildFailed
from experiments.processes.waiting import eventually

_HEAL_SECONDS = 90.0
_READY_SECONDS = 180.0
_PROGRESS_SECONDS = 1.0
_MOST_SKIPPED = 0.25
_EMPTYING = ("lose_shard", "grow", "shard_killed")


class Outcome(NamedTuple):
    """Outcome of a run; ``failures`` is empty if every check passed."""

    failures: list[str]
    courses: list[Course]
    began: float
    seen: list[Seen]
    logs: Mapping[int, Sequence[Note]]
    books: Books | None
    findings: Findings | None
    reports: list[dict[str, Any]]
    drain_seconds: float
    archived: Verdict | None = None
    overload: dict[str, Any] | None = None  #: of the scenario of that name
    answers: dict[str, Any] | None = None  #: of a scenario, by kind of fault and surface


def measure(options: Options, directory: Path) -> Outcome:
    """Run, judge, and leave all logs in ``directory``. Raises ShardpulseError if it cannot start."""
    faults = schedule.make(options.seed, options.seconds, options.scene, options.only)
    (directory / "schedule.json").write_text(json.dumps([fault._asdict() for fault in faults], indent=1) + "\n")
    with installation.running(options, directory) as parts:
        runner = FaultRunner(parts, faults)
        with contextlib.ExitStack() as stack:
            asked = stack.enter_context(_asking(parts)) if options.scenario else None
            began = time.monotonic()
            stack.callback(runner.close)
            runner.start(began)
            failures = _suffer(parts, runner, began)
            answers: dict[str, Any] | None = None
            if asked is not None:
                asked.stop()
                answers, wrong = witness.judge(asked.said, runner.courses, options)
                failures += wrong
            return _judge(parts, runner.courses, began, failures)._replace(answers=answers)


def _asking(parts: Installation) -> Witness:
    """All readers, once they see every host. Raises TemporaryError."""
    eventually(parts.is_current, _READY_SECONDS, "not every host is current at the beginning")
    return Witness(parts)


def _suffer(parts: Installation, runner: FaultRunner, began: float) -> list[str]:
    """Watch until the time is over and all faults are healed; other failures."""
    end = began + parts.options.seconds
    failures: list[str] = []
    told = began
    while time.monotonic() < end or not runner.done:
        time.sleep(0.1)
        failures += _deaths(parts)
        now = time.monotonic()
        if now > end + _HEAL_SECONDS:
            failures.append(f"faults were not healed {_HEAL_SECONDS:g} s after the end")
            break
        if now - told >= _PROGRESS_SECONDS:
            told = now
            _progress(parts, runner.courses, now - began)
    failures += [f"{course.fault}: {course.failed}" for course in runner.courses if course.failed]
    skipped = [course for course in runner.courses if course.skipped]
    if len(skipped) > _MOST_SKIPPED * len(runner.courses):
        failures.append(f"{len(skipped)} of {len(runner.courses)} faults were skipped: {skipped[0].skipped}")
    return failures


def _deaths(parts: Installation) -> list[str]:
    """Services and generators that have ended by themselves; services are restarted."""
    found = []
    for service in parts.services:
        code = service.ended()
        if code is not None:
            found.append(f"{service.name} ended by itself with exit code {code}")
            service.start()
    for generator in parts.generators:
        try:
            generator.check()
        except ChildFailed as error:
            generator.away = True
            found.append(str(error))
    return found


def _judge(parts: Installation, courses: list[Course], began: float, failures: list[str]) -> Outcome:
    """Stop frame generation, drain, compare."""
    options = parts.options
    for generator in parts.generators:
        with _telling(failures):
            generator.ask("finish")
    drained = 0.0
    with _telling(failures):
        drained = installation.drain(parts, options.drain_seconds)
    logs = parts.logs()
    books: Books | None = None
    findings = None
    reports: list[dict[str, Any]] = []
    load = options.load
    overload: dict[str, Any] | None = None
    with _telling(failures):
        books = parts.books()
        failures += referee.judge_books(load, logs, books)
        if load.talkative:
            overload, wrong = referee.judge_overload(load, books, _while_healing(parts, courses))
            failures += wrong
    with _telling(failures):
        with contextlib.closing(parts.connect(5.0)) as cluster:
            snapshot = SnapshotReader(cluster).latest()
        failures += [error for error in snapshot.errors if error not in _expected(snapshot, courses)]
        findings = referee.judge_values(load, *_whole(logs, snapshot, books), options.tau)
        if findings.problems:
            failures.append(f"{findings.mismatches} of {findings.samples} samples differ from the reference")
            failures += findings.problems
    archived: Verdict | None = None
    if options.archivers:
        with _telling(failures):
            archived = _judge_archive(parts, logs)
            failures += [f"archive: {problem}" for problem in archived.problems]
    for generator in parts.generators:
        with _telling(failures):
            reports.append(generator.ask("report"))
    evidence = {"writers": reports, "books": [structs.asdict(row) for row in books.accounts] if books else []}
    (parts.directory / "evidence.json").write_text(json.dumps(evidence, indent=1, default=str) + "\n")
    seen = observer.read(installation.observations(parts.directory))
    return Outcome(failures, courses, began, seen, logs, books, findings, reports, drained, archived, overload)


def _while_healing(parts: Installation, courses: Sequence[Course]) -> list[Seen]:
    """Observations from the first fault until the last one was healed: no frames are made later."""
    made = [course for course in courses if course.made]
    begin = min((course.made for course in made), default=0.0)
    end = max((course.healed or course.healing for course in made), default=0.0)
    return [one for one in observer.read(installation.observations(parts.directory)) if begin <= one.at <= end]


def _whole(
    logs: Mapping[int, Sequence[Note]], snapshot: Snapshot, books: Books | None
) -> tuple[Mapping[int, Sequence[Note]], list[Block]]:
    """Logs and blocks without those of hosts that have shed: the logs do not show which frames."""
    shed = {account.host for account in books.accounts if account.shed} if books else set()
    return (
        {host: notes for host, notes in logs.items() if host_number(host) not in shed},
        [block for block in snapshot.blocks if block.host_id not in shed],
    )


def _expected(snapshot: Snapshot, courses: Sequence[Course]) -> set[str]:
    """Remarks of a reading in a healthy run: sampling has ended, so no host is current after a long drain, and a shard
    may have come back empty within the last minute."""
    since = time.monotonic() - KEPT
    emptied = any(course.fault.kind in _EMPTYING and course.healed > since for course in courses)
    return {snapshot.blind} | ({str(LOST)} if emptied else set())


def _judge_archive(parts: Installation, logs: Mapping[int, Sequence[Note]]) -> Verdict:
    """Have the archive finish, and compare it with the logs. Raises ShardpulseError."""
    options = parts.options
    with contextlib.closing(parts.connect(5.0)) as cluster:
        books = parts.archive.finish(cluster, options.drain_seconds)
    offset = time.time() - time.monotonic()
    return archive_referee.judge(options.load, logs, offset, parts.archive.database.url, books)


@contextlib.contextmanager
def _telling(failures: list[str]) -> Any:
    try:
        yield
    except (ShardpulseError, TemporaryError) as error:
        failures.append(str(error))


def _progress(parts: Installation, courses: Sequence[Course], seconds: float) -> None:
    seen = observer.newest(installation.observations(parts.directory))
    active = [f"{course.fault.kind} {course.fault.target}" for course in courses if course.active]
    flow = f"{seen.applied:,} applied, {seen.silent} hosts silent" if seen else "nothing seen yet"
    line = f"{seconds:5.0f} of {parts.options.seconds:g} s  {flow:45} {', '.join(active) or 'no fault'}"
    print(
        f"\r{line:150.150}" if sys.stderr.isatty() else line, end="" if sys.stderr.isatty() else "\n", file=sys.stderr
    )
