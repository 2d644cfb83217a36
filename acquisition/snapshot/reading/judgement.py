"""Judgement of one record: requested tick, or the reason for its absence (pure)."""

from __future__ import annotations

from typing import NamedTuple

from acquisition.errors import FrameError, ShardpulseError
from acquisition.model import ticks
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Member, Place, Value
from acquisition.snapshot.values.states import CURRENT, LATE
from acquisition.wire.records import smoothed


class Due(NamedTuple):
    """Due ticks at one moment: ``now`` is the reader's clock, seconds since 1970."""

    now: float
    grace: float
    keep_ticks: int

    def tick(self, interval: float) -> int:
        """The newest tick of an interval that must be there."""
        return ticks.coherent_tick(self.now, interval, ticks.usable_grace(self.grace, interval, self.keep_ticks))


def begin(member: Member, place: Place) -> Block:
    """The block of a member, late until a record is found; with a reason when none is to be looked for."""
    block = Block(member.host, member.resource_set, place.position)
    if place.error is not None:
        block.delay = str(place.error)
        block.damage = place.error.reason if isinstance(place.error, FrameError) else ""
        block.unreachable = not block.damage
    elif not 0 < block.interval < float("inf"):
        block.delay = "no samples yet"
    else:
        block.interval = ticks.exact_interval(block.interval)
    return block


def judge_coherent(block: Block, value: Value, tick: int, due: Due) -> None:  # noqa: ARG001 - one signature for all
    """Give ``block`` the values of exactly ``tick``, or the reason why it has none.

    A record that was made more than an interval before its own tick began comes from a host
    whose clock is ahead: its number says nothing about when it was sampled.
    """
    head = _head(block, value, tick)
    if head is None or block.position is None:
        return
    current_epoch = head.epoch == block.position.epoch
    if current_epoch and head.filtered < (head.tick - 1) * block.interval:
        block.delay = f"the host's clock is {head.wall - head.filtered:.1f} s ahead"
    elif not current_epoch or head.tick != tick:
        block.delay = _absence(block.position.tick, tick)
    else:
        _take(block, head, value)
        block.state = CURRENT


def judge_latest(block: Block, value: Value, tick: int, due: Due) -> None:
    """Give ``block`` its newest values; it is current when it is not behind what is due.

    A record newer than the position, of the same epoch, was committed between the two reads.
    """
    head = _head(block, value, tick)
    if head is None or block.position is None:
        return
    if head.epoch != block.position.epoch or (head.sequence < block.position.sequence and head.tick != tick):
        block.delay = "newest record is of another tick"
        return
    _take(block, head, value)
    expected = due.tick(block.interval)
    if head.tick >= expected and head.filtered >= (expected - 1) * block.interval:
        block.state = CURRENT
    else:
        block.delay = _absence(head.tick, expected)
        explain_delay(block)


def judge_newest(block: Block, value: Value, tick: int, due: Due) -> None:
    """The same, but a host whose clock is ahead is late: the number of its tick says nothing."""
    judge_latest(block, value, tick, due)
    if block.state == CURRENT and block.filtered < (block.tick - 1) * block.interval:
        block.state, block.delay = LATE, f"the host's clock is {block.wall - block.filtered:.1f} s ahead"


def remember(block: Block, value: Value) -> None:
    """Keep the newest record of a block without values as evidence of what was."""
    if not isinstance(value, bytes) or block.position is None:
        return
    try:
        record = smoothed.decode(value)
    except FrameError:
        return
    if (record.host, record.resource_set, record.epoch) == (block.host_id, block.set_id, block.position.epoch):
        block.past = record


def explain_delay(block: Block) -> None:
    """Say so when a late block's samples do arrive, but long after their time."""
    delay = block.filtered - block.wall
    if delay > 2 * block.interval:
        block.delay += f"; samples arrive {delay:.1f} s late (clock or backlog)"


def _head(block: Block, value: Value, tick: int) -> smoothed.Head | None:
    """The checked header of a value, or None after noting the reason in ``block``."""
    if isinstance(value, ShardpulseError):
        block.delay, block.unreachable = str(value), True
        return None
    if value is None:
        block.delay = _absence(block.tick, tick, "has expired")
        return None
    try:
        head = smoothed.check(value)
    except FrameError as error:
        block.damage, block.delay = error.reason, f"unreadable record: {error}"
        return None
    if (head.host, head.resource_set) != (block.host_id, block.set_id):
        block.damage, block.delay = "shape", "unreadable record: belongs to another host"
        return None
    return head


def _take(block: Block, head: smoothed.Head, value: Value) -> None:
    if isinstance(value, bytes):
        block.take(head, value)


def _absence(newest: int, tick: int, same: str = "is of an older epoch") -> str:
    if newest < tick:
        return f"{tick - newest} behind tick {tick}"
    if newest > tick:
        return f"tick {tick} was missed or expired; the newest is {newest}"
    return f"tick {tick} {same}"
