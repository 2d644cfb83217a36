"""What the records of the books say: cursor, applied positions, a probe's account of itself (pure).

They may hold anything: what cannot be read becomes a line in ``problems``, with its key.
"""

from __future__ import annotations

from typing import Any

from acquisition.errors import FrameError
from acquisition.snapshot.reconcile.balance import ABSENT, DAMAGED, REPORTED, SILENT, Source
from acquisition.wire import commit, keys, position, status
from acquisition.wire.layout import Layout
from acquisition.wire.position import Position
from acquisition.wire.status import Status


def cursor_in(tag: str, data: Any, problems: list[str]) -> tuple[bytes, int]:
    """The filter's cursor and its count of rejected entries."""
    if data is None:
        return b"", 0
    try:
        found = commit.decode(data)
    except FrameError:
        problems.append(f"{keys.commit(tag)} holds {shown(data)}: no commit")
        return b"", 0
    return found.cursor, found.rejected


def positions_in(key: str, tag: str, rows: Any, layout: Layout, problems: list[str]) -> dict[tuple[int, int], Position]:
    """Positions by (host, resource set): fields and values in turn, of a hash ``key`` of partition ``tag``."""
    found: dict[tuple[int, int], Position] = {}
    for member, data in zip(rows[::2], rows[1::2], strict=True):
        named = keys.parse_member(member)
        where = f"{key} field {shown(member)}"
        if named is None or layout.tag_of(named[0]) != tag:
            problems.append(f"{where} names no resource set of its partition")
            continue
        try:
            found[named] = position.decode(data)
        except FrameError as error:
            problems.append(f"{where}: {error}")
    return found


def report_in(
    host: int, layout: Layout, data: Any, left: Any, problems: list[str], silent_after: float, now: float
) -> tuple[Source, Status | None]:
    """What a probe says of itself, and how far that can be relied on. ``left`` is the milliseconds that the
    record has to live: its age by the shard's clock, whatever the host's clock says."""
    where = keys.status(layout.tag_of(host), host)
    nothing = Source(host, "", 0, ABSENT, None)
    if data is None:
        return nothing, None
    if not isinstance(data, bytes):
        problems.append(f"{where}: {data}")
        return nothing._replace(report=DAMAGED), None
    try:
        record = status.decode(data)
    except FrameError as error:
        problems.append(f"{where}: {error}")
        return nothing._replace(report=DAMAGED), None
    expires = isinstance(left, int) and left >= 0
    age = max(0.0, status.EXPIRE_SECONDS - left / 1000.0 if expires else now - record.wall)
    every = record.rest.get("position_interval", 0.0)
    if isinstance(every, int | float) and 0.0 < every < status.EXPIRE_SECONDS:  # a probe that says so reports rarely
        silent_after = max(silent_after, 3.0 * every)
    return Source(host, record.host_name, 0, SILENT if age > silent_after else REPORTED, age), record


def shown(data: object) -> str:
    """Bytes that may be anything, for a message: short and without control characters."""
    return repr(data[:60] if isinstance(data, bytes) else data)[:80]
