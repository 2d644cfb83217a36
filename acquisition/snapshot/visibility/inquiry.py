"""Visibility reads for late hosts: partition leases and waiting entries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from acquisition.errors import FrameError, ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.resp import Address
from acquisition.snapshot.values.block import Begun, Block
from acquisition.snapshot.values.members import value_of
from acquisition.snapshot.values.states import CURRENT, LATE, UNKNOWN
from acquisition.snapshot.visibility.causes import MOST_HEARD, RECENT, PartitionVisibility, Visibility
from acquisition.snapshot.visibility.workers import read_lags
from acquisition.wire import keys, position, status
from acquisition.wire.layout import Layout
from acquisition.wire.rejected import SIGNATURE

_FIRST = b"0-0"
_MOST_ASKED = 256  #: silent hosts whose probes are checked for refusals
_WITNESSES = 8  #: partitions per shard that are checked for reports of probes
#: Longest period, in seconds, to check witnesses for: raw entries are kept somewhat longer than that by default.
_LONGEST_KEPT = 26.0
_EARLIER, _LATELY = 1.3, 0.3  #: bounds of the times for which witnesses are checked, in parts of the patience
_SPAN = 0.25  #: part of the patience: an outage this long is noticed, unless samples are as rare


class Unread:
    """Questions unanswered by shards: ``messages`` as text, and the ``hosts`` they were about.

    A host with anything unread is not down: it is not seen.
    """

    def __init__(self) -> None:
        self.messages: dict[str, None] = {}
        self.hosts: set[int] = set()

    def value(self, reply: Any) -> Any:
        """A reply, None if it is an error, which is noted."""
        found = value_of(reply)
        if not isinstance(found, ShardpulseError):
            return found
        self.messages[str(found)] = None
        return None

    def is_noted(self, reply: object, hosts: Iterable[int]) -> bool:
        """Whether a reply about these hosts is an error, which is then noted with them."""
        is_error = isinstance(value_of(reply), ShardpulseError)
        if is_error:
            self.value(reply)
            self.hosts.update(hosts)
        return is_error


class VisibilityReader:
    """Reads why hosts are late, and remembers which could not be seen. For one reader."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._excused: dict[int, float] = {}  #: until when a host could not be seen
        self._began = self._last = -math.inf  #: start of observation, and its last time

    def read(
        self,
        cluster: Cluster,
        begun: Sequence[Begun],
        taken: Sequence[Begun],
        now: float,
        grace: float,
        down_after: float,
    ) -> Visibility:
        """Visibility of all blocks in ``begun``; partitions are read if some in ``taken`` are late.

        A reader that has observed for less than ``down_after`` seconds checks whether probes reported then.
        """
        if not 0.0 <= now - self._last <= down_after / 2:
            self._began = now
        self._last = now
        late = [each for each in begun if each[1].state == LATE]
        if not late:
            return Visibility({}, [""] * self._layout.partitions, asked=now)
        silent = [each for each in late if _is_silent(each[1], now - down_after)]
        missed = [each for each in taken if each[1].state == LATE and not each[1].unreachable]
        tags = {member.tag for member, _ in (*missed, *silent)}
        owners = {tag: str(cluster.known_owner(keys.commit(tag)) or "") for tag in self._layout.tags}
        unread = Unread()
        partitions = read_partitions(cluster, self._layout, tags, unread) if tags else {}
        trusted: frozenset[str] | None = None
        if silent and now - self._began <= down_after:
            recent = [member for member, block in taken if now - block.filtered <= RECENT * down_after]
            shortest = min((block.interval for _, block in begun if 0.0 < block.interval < math.inf), default=1.0)
            witnesses = [member.tag for member in recent]
            trusted = heard_before(cluster, witnesses, owners, down_after, shortest, unread)
        advanced = advanced_hosts(cluster, silent, unread) if silent else frozenset()
        refused = refused_hosts(cluster, silent, now - down_after, unread) if silent else frozenset()
        excused = dict(self._excused)
        shards = list(owners.values())
        return Visibility(
            partitions, shards, excused, trusted, grace, advanced, refused,
            frozenset(unread.hosts), tuple(unread.messages), now,
        )  # fmt: skip

    def remember(self, blocks: Iterable[Block], now: float) -> None:
        """Note the hosts that cannot be seen ``now``, and forget those that can."""
        for block in blocks:
            if block.state == UNKNOWN:
                self._excused[block.host_id] = now
            elif block.state == CURRENT:
                self._excused.pop(block.host_id, None)


def read_partitions(
    cluster: Cluster, layout: Layout, tags: Collection[str], unread: Unread
) -> dict[int, PartitionVisibility | None]:
    """Visibility of the partitions with these tags, by number, None if it cannot be read; three pipelines per
    shard."""
    asked = [tag for tag in layout.tags if tag in tags]
    leases, commits = [keys.lease(tag) for tag in asked], [keys.commit(tag) for tag in asked]
    replies = [value_of(reply) for reply in cluster.gather([(key, ("GET", key)) for key in (*leases, *commits)])]
    holders, found = replies[: len(asked)], replies[len(asked) :]
    cursors = dict(zip(asked, map(_cursor, found), strict=True))
    lags = read_lags(cluster, layout, cursors, cursors.keys())
    memory = _memory(cluster, asked)
    visibility: dict[int, PartitionVisibility | None] = {}
    for commit, holder, newest, cursor, each in zip(commits, holders, found, cursors.values(), lags, strict=True):
        owner = cluster.known_owner(commit)
        failed = [one for one in (holder, newest, memory[owner]) if isinstance(one, ShardpulseError)]
        unread.messages |= dict.fromkeys([str(one) for one in (*failed, each.error) if one is not None])
        visibility[each.number] = (
            None
            if failed or each.seconds is None
            else PartitionVisibility(holder is not None, each.seconds, _seconds(cursor), _is_full(memory[owner]))
        )
    return visibility


def _memory(cluster: Cluster, tags: Iterable[str]) -> dict[Address | None, Any]:
    """Replies of these partitions' owners about their memory, or the reasons for their absence."""
    owners = {cluster.known_owner(keys.commit(tag)): keys.commit(tag) for tag in tags}
    replies = cluster.gather([(key, ("INFO", "memory")) for key in owners.values()])
    return dict(zip(owners, map(value_of, replies), strict=True))


def _is_full(info: bytes) -> bool:
    """Whether a server refuses commands that need memory (Redis, "INFO")."""
    figures = dict(line.split(b":", 1) for line in info.split(b"\r\n") if b":" in line)
    return 0 < _whole(figures.get(b"maxmemory")) < _whole(figures.get(b"used_memory"))


def _whole(digits: bytes | None) -> int:
    return int(digits) if digits and digits.isdigit() else 0


def heard_before(
    cluster: Cluster, tags: Iterable[str], owners: Mapping[str, str], down_after: float, interval: float, unread: Unread
) -> frozenset[str]:
    """Shards in which entries of these partitions arrived all the time, from ``down_after`` seconds ago until a moment
    ago: a host silent since then is silent alone. A few partitions of each are checked; ``interval`` is that
    of the samples, in seconds."""
    chosen: dict[str, list[str]] = {}
    for tag in dict.fromkeys(tags):
        if len(found := chosen.setdefault(owners[tag], [])) < _WITNESSES:
            found.append(keys.raw(tag))
    clocks = list(map(unread.value, cluster.gather([(streams[0], ("TIME",)) for streams in chosen.values()])))
    moments, span = _moments(min(down_after, _LONGEST_KEPT / _EARLIER), interval)
    asked = [
        (shard, stream, 1000 * int(clock[0]) - ago)
        for (shard, streams), clock in zip(chosen.items(), clocks, strict=True)
        if isinstance(clock, list)
        for ago in moments
        for stream in streams
    ]
    replies = cluster.gather(
        [(stream, ("XRANGE", stream, since, since + span, "COUNT", 1)) for _, stream, since in asked]
    )
    heard = Counter(
        (shard, since) for (shard, _, since), reply in zip(asked, replies, strict=True) if unread.value(reply)
    )
    most = MOST_HEARD * min(1.0, span / 1000.0 / interval)
    silent = {shard for shard, _, since in asked if heard[shard, since] < most * len(chosen[shard])}
    return frozenset({shard for shard, _, _ in asked} - silent)


def _moments(patience: float, interval: float) -> tuple[range, int]:
    """How long ago probes must have reported, and for how long from then on, in ms: any outage half as long again
    hides at least one of these moments."""
    span = min(_EARLIER * patience, max(_SPAN * patience, 1.5 * interval))
    first, last = int(1000 * _EARLIER * patience), int(1000 * (_LATELY * patience + span))
    return range(first, min(last, first) - 1, -max(1, int(500 * span))), int(1000 * span)


def advanced_hosts(cluster: Cluster, silent: Sequence[Begun], unread: Unread) -> frozenset[int]:
    """Hosts with other positions than those their blocks were made from: they reported in between, or
    that cannot be known. Otherwise a host would be down if its partition was committed, for the first time in a
    while, between the reading of its position and that of its lease."""
    by_tag: dict[str, list[Begun]] = {}
    for each in silent:
        by_tag.setdefault(each[0].tag, []).append(each)
    commands = [
        (keys.applied(tag), ("HMGET", keys.applied(tag), *(keys.member(m.host, m.resource_set) for m, _ in part)))
        for tag, part in by_tag.items()
    ]
    found: set[int] = set()
    for part, reply in zip(by_tag.values(), cluster.gather(commands), strict=True):
        if unread.is_noted(reply, [block.host_id for _, block in part]):
            continue
        answers = reply if isinstance(reply, list) else [None] * len(part)
        pairs = zip((block for _, block in part), answers, strict=True)
        found |= {block.host_id for block, data in pairs if not _is_position(block, data)}
    return frozenset(found)


def refused_hosts(cluster: Cluster, silent: Sequence[Begun], since: float, unread: Unread) -> frozenset[int]:
    """Hosts whose probes have reported ``since`` then, by their own clock, that the filter refuses their frames for
    lack of a signature; if very many, only some are checked. No other part reports it: a status is the host's own."""
    asked = {block.host_id: keys.status(member.tag, block.host_id) for member, block in silent[:_MOST_ASKED]}
    replies = cluster.gather([(key, ("GET", key)) for key in asked.values()])
    return frozenset(
        host
        for host, reply in zip(asked, replies, strict=True)
        if not unread.is_noted(reply, [host]) and _says_refused(reply, since)
    )


def _says_refused(reply: object, since: float) -> bool:
    try:
        found = status.decode(reply) if isinstance(reply, bytes) else None
    except FrameError:
        return False
    return found is not None and found.wall >= since and found.rest.get("refused") == SIGNATURE


def _is_silent(block: Block, before: float) -> bool:
    return block.state == LATE and bool(block.wall) and block.filtered < before and not block.unreachable


def _is_position(block: Block, data: object) -> bool:
    """Whether this is the newest tick known to the block."""
    try:
        found = position.decode(data) if isinstance(data, bytes) else None
    except FrameError:
        return False
    return found is not None and block.position is not None and found[:3] == block.position[:3]


def _cursor(reply: object) -> bytes:
    """Cursor of the newest commit; the beginning if there is no valid one."""
    try:
        return position.decode_commit(reply).cursor if isinstance(reply, bytes) else _FIRST
    except FrameError:
        return _FIRST


def _seconds(cursor: bytes) -> float:
    """Arrival time of an entry, by its shard's clock."""
    return int(cursor.partition(b"-")[0]) / 1000.0
