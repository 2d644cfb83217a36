"""Referee: compares the shards with the logs, by sample and by count.

Independent on both sides: the logs and ``reference`` do not depend on the filter; counts and snapshot are the product's
own. Differences are allowed as for ``experiments.harness.verification``: 1e-5 relative, with a floor of 1e-6 of the
metric's range (squared for the variance, per second for the trend); ``last``, codes, rows, names and numbers must be
equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from acquisition.outbox.shedding import SHED_AFTER
from acquisition.snapshot.reconcile.balance import ENDED, REPORTED, Account
from acquisition.snapshot.reconcile.books import Books
from acquisition.snapshot.values.block import Block
from experiments.chaos import reference
from experiments.chaos.host_log import Note
from experiments.chaos.load import Load, entity
from experiments.chaos.observer import Seen
from experiments.chaos.reference import Doubles, Reference
from experiments.emulation.workload import host_number, scale
from experiments.harness.verification import ABSOLUTE, RELATIVE, as_sent

_MOST_EXAMPLES = 50
_AGE_SECONDS = 1e-5
_OLDEST = 2.0  #: greatest age of the newest readable samples, as a multiple of the age at which probes begin to shed


class Findings(NamedTuple):
    """``worst`` is the largest difference as a multiple of the tolerance (up to 1 is equal)."""

    entities: int
    samples: int
    mismatches: int  #: samples
    worst: float
    problems: tuple[str, ...]  #: examples of the mismatches, and everything else that is wrong


def judge_books(load: Load, logs: Mapping[int, Sequence[Note]], books: Books) -> list[str]:
    """Contradictions between counts and logs; empty if every sample is applied exactly once, or counted as lost because
    its host has shed it in a run with talkative hosts."""
    known = {account.host: account for account in books.accounts if account.resource_set == load.set_id}
    problems = list(books.faults)
    if books.rejected:
        problems.append(f"{books.rejected} entries were rejected")
    for host, notes in sorted(logs.items()):
        problems += [f"host {host}: {text}" for text in _account_problems(load, notes, known.get(host_number(host)))]
    return problems


def _account_problems(load: Load, notes: Sequence[Note], account: Account | None) -> list[str]:
    if not notes:
        return ["it made nothing"]
    if account is None:
        return ["there is no account"]
    made = sum(note.samples for note in notes)
    found = []
    if len({note.epoch for note in notes}) > 1 or account.epoch != notes[-1].epoch:
        found.append(f"epochs {sorted({note.epoch for note in notes})} in the log, {account.epoch} in the books")
    if account.report != REPORTED and not (load.talkative and account.report == ENDED):
        found.append("its probe's own account is missing")
    shed = account.shed if load.talkative else 0
    if account.made != made or account.applied != made - shed:
        found.append(f"{made} samples were made; the books say {account.made} made, {account.applied} applied")
    if account.lost != shed:
        found.append(f"{account.lost} samples lost" + (f", {shed} shed" if load.talkative else ""))
    for name in ("before", "duplicated", "pending", "missing", "dropped"):
        if getattr(account, name):
            found.append(f"{getattr(account, name)} samples {name}")
    return found


def judge_overload(load: Load, books: Books, seen: Sequence[Seen]) -> tuple[dict[str, Any], list[str]]:
    """Figures of an overload, and contradictions to controlled shedding. ``seen`` are the observations until all was
    normal again."""
    made, shed = Counter[bool](), Counter[bool]()
    talkative = {host_number(host): load.is_talkative(host) for host in range(load.hosts)}
    for account in books.accounts:
        made[talkative[account.host]] += account.made
        shed[talkative[account.host]] += account.shed
    share = {True: shed[True] / max(1, made[True]), False: shed[False] / max(1, made[False])}
    oldest, shedding = max((one.oldest for one in seen), default=0.0), max((one.shedding for one in seen), default=0)
    found = []
    if oldest > _OLDEST * SHED_AFTER:
        found.append(f"the newest readable samples of a host were {oldest:.1f} s old: more than {_OLDEST * SHED_AFTER}")
    if not shed[True]:
        found.append("nothing was shed")
    if not shedding:
        found.append("no reader learned that hosts shed")
    if share[False] * 10.0 > share[True]:
        found.append(f"hosts shed {share[False]:.4f} of what they made, talkative ones {share[True]:.4f}")
    figures = {
        "samples_shed": shed[True] + shed[False],
        "share_of_talkative": round(share[True], 4),
        "share_of_others": round(share[False], 4),
        "most_hosts_shedding": shedding,
        "oldest_seconds": oldest,
    }
    return figures, found


def judge_values(load: Load, logs: Mapping[int, Sequence[Note]], blocks: Iterable[Block], tau: float) -> Findings:
    """Compare the smoothed state of all entities of all hosts with the reference."""
    known = {block.host_id: block for block in blocks if block.set_id == load.set_id}
    problems: list[str] = []
    entities = samples = mismatches = 0
    worst = 0.0
    for host, notes in sorted(logs.items()):
        expected = reference.run(load, host, notes, tau)
        entities += len(expected.rows)
        samples += expected.mean.size
        block = known.get(host_number(host))
        fault = _shape_problem(load, host, notes, expected, block)
        if fault or block is None:
            problems.append(f"host {host}: {fault}")
            mismatches += expected.mean.size
            continue
        sizes = _differences(load, expected, block)
        wrong = np.argwhere(sizes > 1.0)
        mismatches += len(wrong)
        worst = max(worst, float(sizes.max()))
        problems += [_describe(load, host, expected, block, int(row), int(column)) for row, column in wrong]
    if len(problems) > _MOST_EXAMPLES:
        problems[_MOST_EXAMPLES:] = [f"and {len(problems) - _MOST_EXAMPLES} more"]
    return Findings(entities, samples, mismatches, worst, tuple(problems))


def _shape_problem(load: Load, host: int, notes: Sequence[Note], expected: Reference, block: Block | None) -> str:
    """Why values cannot be compared; "" if they can."""
    if block is None or not block.has_values or block.head is None:
        return "it has no smoothed values"
    if not notes:
        return "it has smoothed values and made none"
    newest = notes[-1]
    if (block.head.epoch, block.head.sequence) != (newest.epoch, newest.sequence):
        return (
            f"the newest frame is {newest.sequence} of epoch {newest.epoch}, "
            f"smoothed is {block.head.sequence} of epoch {block.head.epoch}"
        )
    if block.raw_ids != load.ids(host, expected.rows) or block.shape != expected.mean.shape:
        return "the rows are not those of its newest frame"
    named = tuple(map(as_sent, block.entities))
    wanted = tuple(entity(host, row) for row in expected.rows)
    if named != wanted:
        first = next(place for place, pair in enumerate(zip(named, wanted, strict=True)) if pair[0] != pair[1])
        return f"row {first} is named {named[first]}, not {wanted[first]}"
    return ""


def _differences(load: Load, expected: Reference, block: Block) -> Doubles:
    """Largest difference of each sample's figures, as a multiple of the tolerance."""
    size = np.array([scale(metric) for metric in load.columns])
    sizes = np.maximum.reduce(
        [
            _difference(block.plane("mean"), expected.mean, RELATIVE, ABSOLUTE * size),
            _difference(block.plane("variance"), expected.variance, RELATIVE, ABSOLUTE * size * size),
            _difference(block.plane("trend"), expected.trend, RELATIVE, ABSOLUTE * size),
            _difference(block.plane("last"), expected.last, 0.0, np.full(size.shape, 1e-300)),
            _difference(block.stale_seconds(), expected.age, RELATIVE, np.full(size.shape, _AGE_SECONDS)),
        ]
    )
    return np.where(block.codes() == expected.code, sizes, math.inf)


def _difference(found: Any, wanted: Doubles, relative: float, floor: Doubles) -> Doubles:
    found = np.asarray(found, np.float64)
    with np.errstate(all="ignore"):
        ratio = np.abs(found - wanted) / (relative * np.abs(wanted) + floor)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    return np.where(same, 0.0, np.where(np.isnan(ratio), math.inf, ratio))


def _describe(load: Load, host: int, expected: Reference, block: Block, row: int, column: int) -> str:
    names = ("mean", "variance", "trend", "last")
    found = {name: float(block.plane(name)[row, column]) for name in names}
    found |= {"code": float(block.codes()[row, column]), "age": float(block.stale_seconds()[row, column])}
    wanted = {name: float(getattr(expected, name)[row, column]) for name in (*names, "code", "age")}
    return f"host {host} {expected.rows[row]} {load.columns[column].name}: {found}, expected {wanted}"
