"""Migration log in the shards: one stream shared by all readers.

It also holds the times at which migrations were seen to end.

A report is one entry; its time is the entry's id, set by the shard that keeps the stream, and "now" is that
shard's clock too. ``filters.decisions.migrations`` derives the state from the entries; racing reports are
judged by their order in the stream, so identically by every reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acquisition.config.decisions import Policy
from acquisition.errors import DataError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import raise_for
from acquisition.wire import keys
from filters.decisions.migrations import Log, Report, append, replay
from filters.decisions.sightings import Sightings, joined

_KEEP_ENTRIES = 20_000
_SETTLED_MILLISECONDS = 3_600_000
_SKEW = 1.0  #: seconds by which the clocks of two shards may differ after one took over for the other
_FIELDS = Report._fields


def read(cluster: Cluster, policy: Policy) -> Log:
    """The log as far back as the policy looks. Raises ShardError, TemporaryError or PermissionRefused when
    the shard that keeps it cannot be read."""
    clock, settled = cluster.gather([(keys.MIGRATIONS, ("TIME",)), (keys.SETTLED, ("HGETALL", keys.SETTLED))])
    now = int(raise_for(clock)[0]) + int(clock[1]) / 1e6
    seconds = policy.migration_seconds + max(policy.cool_down_seconds, policy.settle_seconds)
    entries = cluster.call(keys.MIGRATIONS, "XRANGE", keys.MIGRATIONS, max(0, int((now - seconds) * 1000)), "+")
    said, broken = _reports(entries)
    migrations, problems = replay(said, policy.migration_seconds)
    seen = Sightings(ends=_ends(raise_for(settled), now, policy.settle_seconds))
    return joined(Log(migrations, now, (*broken, *problems)), seen)


def note(cluster: Cluster, ends: Mapping[str, float]) -> None:
    """Publish the times at which migrations were seen to end, by host id, for other and later readers.

    Raises ShardError if no shard answers, and errors returned by the shard that keeps them.
    """
    fields = [word for host, at in ends.items() for word in (host, int(at * 1000.0))]
    for reply in cluster.gather(
        [
            (keys.SETTLED, ("HSET", keys.SETTLED, *fields)),
            (keys.SETTLED, ("PEXPIRE", keys.SETTLED, _SETTLED_MILLISECONDS)),
        ]
    ):
        raise_for(reply)


def report(cluster: Cluster, said: Report, policy: Policy) -> Log:
    """Write one report and return the log with it.

    Raises DataError if it contradicts the log or is invalid, and as ``read``. A report may be repeated if
    its answer was lost.
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
    if lost:  # another report about the same VM came first
        raise DataError(lost[0].removeprefix(f"{entry}: "))
    return after


def _ends(fields: Sequence[bytes], now: float, settle_seconds: float) -> dict[str, float]:
    """Times at which migrations were seen to end, by host, for hosts that are still settling."""
    pairs = zip(fields[::2], fields[1::2], strict=True)
    ends = {host.decode("ascii", "replace"): int(at) / 1000.0 for host, at in pairs if at.isdigit() and len(at) < 15}
    return {host: at for host, at in ends.items() if -_SKEW < now - at < settle_seconds}


def _reports(entries: Sequence[Any]) -> tuple[list[tuple[str, Report, float]], list[str]]:
    """The entries of the stream as (id, report, time), and those that are not valid reports."""
    found, broken = list[tuple[str, Report, float]](), list[str]()
    for entry, fields in entries:
        name = entry.decode()
        try:
            known = {key.decode(): value.decode() for key, value in zip(fields[::2], fields[1::2], strict=True)}
            said = Report(**{field: known[field] for field in _FIELDS})
        except (KeyError, UnicodeDecodeError, ValueError, TypeError):
            broken.append(f"{name}: not a migration report")
            continue
        found.append((name, said, int(name.partition("-")[0]) / 1000.0))
    return found, broken
