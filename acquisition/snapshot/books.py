"""The books: what was made against what was applied, from two counts made independently.

The probe's status record says what it made and up to where the shard acknowledged it; the
filter's position says what it applied, per (host, resource set, epoch):
made = before + applied + lost + pending. As soon as the filter's cursor has passed the
newest acknowledged entry, all samples up to it must be applied; what is not is lost, until
the probe notices and sends it again. Before that it is pending, like what waits in the outbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster, Layout
from acquisition.link.resp import raise_for
from acquisition.outbox.window import is_before
from acquisition.wire import keys, position, status
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus, Status

_MANY = 500


class Account(NamedTuple):
    """One (host, resource set, epoch), in samples unless it says frames.

    ``lost``: given up by the probe and known to the filter, or missing behind its cursor.
    ``duplicated``: applied beyond what was made. ``pending``: in the outbox or in the stream.
    ``reported`` tells whether the probe's own count was there; without it ``made`` is what the
    filter knows of and nothing can be missing. ``host_name`` is "" then.
    """

    host: int
    host_name: str
    resource_set: int
    epoch: int
    made: int
    before: int
    applied: int
    invalid: int
    lost: int
    missing: int  #: the part of ``lost`` that is missing behind the cursor now
    duplicated: int
    pending: int
    frames: int
    refused_frames: int
    duplicate_frames: int  #: received again and dropped
    resent_frames: int
    reported: bool

    @property
    def balanced(self) -> bool:
        """Nothing is lost and nothing is counted twice."""
        return self.lost == 0 and self.duplicated == 0


class Totals(NamedTuple):
    """Sums over accounts, in samples; ``unbalanced`` and ``unreported`` count accounts."""

    accounts: int
    made: int
    before: int
    applied: int
    invalid: int
    lost: int
    duplicated: int
    pending: int
    unbalanced: int
    unreported: int


def balance(
    host: int, host_name: str, resource_set: int, sent: SetStatus | None, done: Position | None, cursor: bytes
) -> Account:
    """The account of one resource set (pure). ``sent`` was read before ``cursor``, and that before
    ``done``. A position of another epoch than the status is one that was not applied yet."""
    if sent is not None and done is not None and done.epoch != sent.epoch:
        done = None
    known = done or Position(sent.epoch if sent is not None else 0, 0, 0, 0.0, 0.0)
    accounted = known.before + known.applied + known.lost
    made = sent.made if sent is not None else accounted
    missing = duplicated = 0
    if sent is not None:
        if sent.sent_id and not is_before(cursor, sent.sent_id.encode()):
            missing = max(0, sent.sent_samples - accounted)
        if known.sequence <= sent.frames:
            duplicated = max(0, accounted - made)
    made = max(made, accounted - duplicated)  # the filter may be ahead of the last status
    return Account(
        host=host,
        host_name=host_name,
        resource_set=resource_set,
        epoch=known.epoch,
        made=made,
        before=known.before,
        applied=known.applied,
        invalid=known.invalid,
        lost=known.lost + missing,
        missing=missing,
        duplicated=duplicated,
        pending=max(0, made - accounted - missing),
        frames=known.frames,
        refused_frames=known.refused,
        duplicate_frames=known.duplicates,
        resent_frames=sent.resent_frames if sent is not None else 0,
        reported=sent is not None,
    )


def read_books(cluster: Cluster, layout: Layout) -> list[Account]:
    """The accounts of all hosts that have a status record or an applied position.

    Raises ShardError or TemporaryError when a shard does not answer: books with a part missing
    would look balanced. A record that cannot be read counts as absent.
    """
    tags = layout.tags
    hosts = _hosts_with_status(cluster)
    for host, _ in _members(cluster, tags):
        hosts.add(host)
    reports = _statuses(cluster, layout, hosts)
    cursors, positions = _positions(cluster, tags)
    accounts = []
    members = {(host, number) for host, report in reports.items() for number in report.sets} | set(positions)
    for host, number in sorted(members):
        report = reports.get(host)
        sent = report.sets.get(number) if report is not None else None
        cursor = cursors[layout.tag_of(host)]
        name = report.host_name if report is not None else ""
        accounts.append(balance(host, name, number, sent, positions.get((host, number)), cursor))
    return accounts


def read_status(cluster: Cluster, layout: Layout, host: int) -> Status | None:
    """The status record of one host, None when there is none. Raises FrameError when it is damaged."""
    key = keys.status(layout.tag_of(host), host)
    data = cluster.call(key, "GET", key)
    return None if data is None else status.decode(data)


def totals(accounts: Iterable[Account]) -> Totals:
    """The sums of many accounts."""
    rows = list(accounts)
    return Totals(
        accounts=len(rows),
        made=sum(row.made for row in rows),
        before=sum(row.before for row in rows),
        applied=sum(row.applied for row in rows),
        invalid=sum(row.invalid for row in rows),
        lost=sum(row.lost for row in rows),
        duplicated=sum(row.duplicated for row in rows),
        pending=sum(row.pending for row in rows),
        unbalanced=sum(not row.balanced for row in rows),
        unreported=sum(not row.reported for row in rows),
    )


def _hosts_with_status(cluster: Cluster) -> set[int]:
    """The hosts with a status record, applied or not: SCAN on every shard that owns slots."""
    hosts: set[int] = set()
    for address in cluster.masters():
        connection = cluster.connect(address)
        try:
            cursor: Any = b"0"
            while True:
                cursor, found = connection.call("SCAN", cursor, "MATCH", "status:{*", "COUNT", 1000)
                hosts.update(host for key in found if (host := _hexadecimal(key.rpartition(b":")[2])) is not None)
                if cursor == b"0":
                    break
        finally:
            connection.close()
    return hosts


def _members(cluster: Cluster, tags: Iterable[str]) -> Iterator[tuple[int, int]]:
    names = [keys.applied(tag) for tag in tags]
    for reply in cluster.gather([(name, ("HKEYS", name)) for name in names]):
        for member in _checked(reply):
            split = _split(member)
            if split is not None:
                yield split


def _statuses(cluster: Cluster, layout: Layout, hosts: Iterable[int]) -> dict[int, Status]:
    reports = {}
    ordered = sorted(hosts)
    for start in range(0, len(ordered), _MANY):
        batch = ordered[start : start + _MANY]
        names = [keys.status(layout.tag_of(host), host) for host in batch]
        for host, data in zip(batch, cluster.gather([(name, ("GET", name)) for name in names]), strict=True):
            if _checked(data) is not None:
                try:
                    reports[host] = status.decode(data)
                except FrameError:
                    continue  # the probe writes it anew in seconds; until then the host is unreported
    return reports


def _positions(cluster: Cluster, tags: Iterable[str]) -> tuple[dict[str, bytes], dict[tuple[int, int], Position]]:
    """Cursor by tag, position by (host, resource set); of each partition the cursor first."""
    cursors: dict[str, bytes] = {}
    positions: dict[tuple[int, int], Position] = {}
    commands: list[tuple[str, tuple[Any, ...]]] = []
    for tag in (ordered := list(tags)):
        commands += [(keys.commit(tag), ("GET", keys.commit(tag))), (keys.applied(tag), ("HGETALL", keys.applied(tag)))]
    replies = cluster.gather(commands)
    for tag, commit, rows in zip(ordered, replies[::2], replies[1::2], strict=True):
        words = (_checked(commit) or b"").split(b" ")
        cursors[tag] = words[1] if len(words) > 1 else b""
        _checked(rows)
        for member, data in zip(rows[::2], rows[1::2], strict=True):
            split = _split(member)
            try:
                if split is not None:
                    positions[split] = position.decode(data)
            except FrameError:
                continue  # then the filter cannot read it either and starts anew
    return cursors, positions


def _checked(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise_for(reply)
        raise reply
    return reply


def _split(member: bytes) -> tuple[int, int] | None:
    host, _, number = member.partition(b":")
    numbers = _hexadecimal(host), _hexadecimal(number)
    return None if numbers[0] is None or numbers[1] is None else (numbers[0], numbers[1])


def _hexadecimal(text: bytes) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
