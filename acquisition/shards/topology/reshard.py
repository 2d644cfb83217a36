"""Plan of slot stripes to move when shards are added, emptied or balanced (pure).

A partition's keys are in one slot, in the middle of a stripe of slots that no other partition uses
(acquisition.wire.keys). A stripe moves as a whole, so that every slot always has an owner and
an even split of the partitions is an even split of the slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acquisition.errors import TemporaryError, UsageError
from acquisition.wire import keys


class Move(NamedTuple):
    """Slots of one stripe to be moved from one master to another; both are node ids."""

    partition: int
    source: str
    target: str
    slots: tuple[int, ...]


def stripe(partition: int, partitions: int) -> range:
    """Slots of a partition."""
    return range(partition * keys.SLOTS // partitions, (partition + 1) * keys.SLOTS // partitions)


def holders(owners: Mapping[int, str], partitions: int) -> list[str]:
    """Master of each partition; ``owners`` maps slots to node ids.

    Raises TemporaryError for a partition with an unowned slot.
    """
    found = []
    for tag in keys.tags(partitions):
        slot = keys.slot_of(keys.raw(tag))
        if slot not in owners:
            raise TemporaryError(f"no shard owns slot {slot}; start the missing shard before moving slots")
        found.append(owners[slot])
    return found


def even(owners: Mapping[int, str], masters: Sequence[str], partitions: int) -> list[Move]:
    """Fewest moves after which ``masters`` hold the same number of partitions, give or take one."""
    now = holders(owners, partitions)
    share = _shares(now, masters, partitions)
    return _moves(owners, now, _settle(now, share), leaving="")


def emptied(owners: Mapping[int, str], masters: Sequence[str], leaving: str, partitions: int) -> list[Move]:
    """Moves after which ``leaving`` owns no slot and the other masters hold about the same number.

    Partitions not on ``leaving`` stay where they are. Raises UsageError if no other master is left.
    """
    staying = [master for master in masters if master != leaving]
    if not staying:
        raise UsageError("the last shard cannot be removed: `shardpulse shards down` stops it")
    now = holders(owners, partitions)
    count = Counter(dict.fromkeys(staying, 0))
    count.update(holder for holder in now if holder != leaving)
    then = list(now)
    for partition, holder in enumerate(now):
        if holder == leaving:
            then[partition] = min(staying, key=lambda master: count[master])
            count[then[partition]] += 1
    return _moves(owners, now, then, leaving)


def _shares(now: Sequence[str], masters: Sequence[str], partitions: int) -> dict[str, int]:
    """Number of partitions due to each master; those with most get the remainder."""
    count = Counter(now)
    low, rest = divmod(partitions, len(masters))
    ordered = sorted(masters, key=lambda master: -count[master])
    return {master: low + (place < rest) for place, master in enumerate(ordered)}


def _settle(now: Sequence[str], share: Mapping[str, int]) -> list[str]:
    """Holder of each partition after all masters give away their excess over the share, the last partitions first."""
    then = list(now)
    count = Counter(now)
    lacking = [master for master, wanted in share.items() for _ in range(wanted - count[master])]
    for partition in reversed(range(len(now))):
        holder = now[partition]
        if lacking and count[holder] > share.get(holder, 0):
            count[holder] -= 1
            then[partition] = lacking.pop()
    return then


def _moves(owners: Mapping[int, str], now: Sequence[str], then: Sequence[str], leaving: str) -> list[Move]:
    """Moves of whole stripes, and of single slots owned by ``leaving`` in the stripes of others."""
    found: dict[str, list[Move]] = {}
    for partition, target in enumerate(then):
        going: dict[str, list[int]] = {}
        for slot in stripe(partition, len(now)):
            owner = owners.get(slot, target)
            if owner != target and (target != now[partition] or owner == leaving):
                going.setdefault(owner, []).append(slot)
        for source, slots in going.items():
            found.setdefault(source, []).append(Move(partition, source, target, tuple(slots)))
    return _in_turn(list(found.values()))


def _in_turn(queues: list[list[Move]]) -> list[Move]:
    """One move of each source in turn, so that no shard hands over two partitions in a row if that can be avoided."""
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]
