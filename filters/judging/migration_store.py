"""The log of migrations in the shards: one stream that all readers share.

A report is one entry; its time is the entry's id, set by the shard that keeps the stream, and "now" is that
shard's clock too. What follows from the entries is ``filters.decisions.migrations``; two reports that race
are judged by their order in the stream, the same by every reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acquisition.config.decisions import Policy
from acquisition.errors import DataError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import raise_for
from acquisition.wire import keys
from filters.decisions.migrations import Log, Report, append, replay

_KEEP_ENTRIES = 20_000
_FIELDS = Report._fields


def read(cluster: Cluster, policy: Policy) -> Log:
    """The log as far back as the policy looks. Raises ShardError, TemporaryError or PermissionRefused when
    the shard that keeps it cannot be read."""
    now = _now(cluster)
    seconds = policy.migration_seconds + max(policy.cool_down_seconds, policy.settle_seconds)
    entries = cluster.call(keys.MIGRATIONS, "XRANGE", keys.MIGRATIONS, max(0, int((now - seconds) * 1000)), "+")
    said, broken = _reports(entries)
    migrations, problems = replay(said, policy.migration_seconds)
    return Log(migrations, now, (*broken, *problems))


def report(cluster: Cluster, said: Report, policy: Policy) -> Log:
    """Write one report and answer the log with it.

    Raises DataError when it contradicts the log or makes no sense, and what ``read`` raises. A report whose
    answer was lost may be repeated.
    """
    before = read(cluster, policy)
    state, problem = append(before.migrations, said, before.now)
    if problem:
        raise DataError(problem)
    if state is before.migrations:
        return before  # a repetition
    command = ("XADD", keys.MIGRATIONS, "MAXLEN", "~", _KEEP_ENTRIES, "*")
    pairs = [part for pair in zip(_FIELDS, said, strict=True) for part in pair]
    entry = cluster.call(keys.MIGRATIONS, *command, *pairs).decode()
    after = read(cluster, policy)
    lost = [problem for problem in after.problems if problem.startswith(f"{entry}: ")]
    if lost:  # another report of the same VM came in between
        raise DataError(lost[0].removeprefix(f"{entry}: "))
    return after


def _now(cluster: Cluster) -> float:
    reply = raise_for(cluster.gather([(keys.MIGRATIONS, ("TIME",))])[0])
    return int(reply[0]) + int(reply[1]) / 1e6


def _reports(entries: Sequence[Any]) -> tuple[list[tuple[str, Report, float]], list[str]]:
    """The entries of the stream as (id, report, time), and those that are no reports."""
    found, broken = list[tuple[str, Report, float]](), list[str]()
    for entry, fields in entries:
        name = entry.decode()
        try:
            known = {key.decode(): value.decode() for key, value in zip(fields[::2], fields[1::2], strict=True)}
            said = Report(**{field: known[field] for field in _FIELDS})
        except (KeyError, UnicodeDecodeError, ValueError, TypeError):
            broken.append(f"{name}: no report of a migration")
            continue
        found.append((name, said, int(name.partition("-")[0]) / 1000.0))
    return found, broken
