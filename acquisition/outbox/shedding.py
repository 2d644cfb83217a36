"""When a probe sheds frames, and how many: overload is chosen here, not suffered elsewhere (pure).

A probe measures overload end to end and on one clock: the age of its oldest frame that is not
known to be applied. That age may grow for two reasons. When the filter's cursor *stands still*, a
part is down, frozen or failing over: a fault. Everything is then kept and sent later. When
the cursor *moves* and the age grows all the same, more is made than is applied: overload. So growth while
nothing moves is excused (``base``), and only growth beyond it counts (``excess``). A catch-up after a
fault makes the age fall, and one that waits for its turn stands still: neither is overload.

What is shed follows from the water level that the filter publishes (``filters.water_level``): a probe that
makes more samples than the level thins its frames to ``share`` = level / rate, one that makes less
sheds nothing for twice as long. So the most talkative go first (max-min fairness: Bertsekas and
Gallager, Data Networks, section 6.5.2). Afterwards the share falls by a fifth while the age
still grows and rises by a twentieth per second while data are fresh (additive increase,
multiplicative decrease: Chiu and Jain 1989), until everything is sent again.

A frame that was sent cannot be taken back. So a probe also *holds* frames, which loses nothing, while
the filter is ``_HOLD`` behind what the shard already has of this probe.
"""

from __future__ import annotations

from typing import NamedTuple

#: Seconds of excess age after which a probe above the water level sheds; one below waits ``_PATIENCE`` times as long.
SHED_AFTER = 5.0
_PATIENCE = 2.0
#: Where the filter is not behind, the way to the shard is slow: a fault, unless it lasts so many times as long.
_WAY = 12.0
#: Parts of that time: the filter is behind, frames are held, the filter stands still, data are stale, they are fresh.
_BEHIND, _HOLD, _STILL, _STALE, _FRESH = 0.2, 0.4, 1.0, 0.5, 0.25
_CUT = 0.8
_RISE = 0.05
_UNLEVELLED = 0.7
#: However much a host makes, a twentieth of its frames is sent: it is to be seen.
_LEAST = 0.05
_INFINITY = float("inf")


class Reading(NamedTuple):
    """What one reading of the positions says; seconds, samples per second."""

    now: float  #: CLOCK_MONOTONIC
    age: float  #: since the oldest frame that is neither applied nor shed was made; 0: there is none
    behind: float  #: from the filter's cursor to the newest acknowledged frame, by the shard's clock; 0: passed
    moved: bool  #: the filter went on since the reading before
    rate: float  #: what this host makes
    level: float = 0.0  #: the filter's water level; 0: it has none


class Shedding(NamedTuple):
    """``share`` of the frames is sent; while ``hold``, none is, and none is shed either."""

    share: float = 1.0
    hold: bool = False
    base: float = _INFINITY  #: the age that faults explain
    age: float = _INFINITY  #: at the last reading
    at: float = 0.0
    moved_at: float = 0.0
    behind_at: float = -_INFINITY  #: when the filter was last seen behind: what is held meanwhile hides it

    @property
    def is_active(self) -> bool:
        """Whether frames are being shed."""
        return self.share < 1.0


#: After any doubt (a new connection, a position that went back): that was a fault.
NORMAL = Shedding()


def advance(state: Shedding, reading: Reading, after: float = SHED_AFTER) -> Shedding:
    """The state after a reading. ``after`` is the bound on the age in seconds; infinite: never shed."""
    first = state.age == _INFINITY
    moved_at = reading.now if reading.moved or first or not reading.age else state.moved_at
    base = state.base
    if not reading.moved and reading.age > state.age:
        base += reading.age - state.age
    base = min(base, reading.age)
    if reading.now - moved_at > _STILL * after:
        state, base = NORMAL, reading.age
    share = _share(state, reading, reading.age - base, after)
    behind_at = reading.now if reading.behind >= _BEHIND * after else state.behind_at
    hold = reading.behind > _HOLD * after and (reading.moved or share < 1.0)
    return Shedding(share, hold, base, reading.age, reading.now, moved_at, behind_at)


def _share(state: Shedding, reading: Reading, excess: float, after: float) -> float:
    talkative = 0.0 < reading.level < reading.rate
    levelled = reading.level / reading.rate if talkative else _UNLEVELLED
    if state.share == 1.0:
        filter_is_slow = reading.behind >= _BEHIND * after or reading.now - state.behind_at <= after
        patience = 1.0 if filter_is_slow and talkative else _PATIENCE if filter_is_slow else _WAY
        return max(_LEAST, levelled) if reading.moved and excess > patience * after else 1.0
    if reading.age > _STALE * after:
        if reading.age < state.age or not reading.moved:
            return state.share  # the last cut is at work, or nothing is
        return max(_LEAST, min(levelled, state.share * _CUT))
    if reading.age < _FRESH * after and reading.behind < _BEHIND * after:
        return min(1.0, state.share + _RISE * (reading.now - state.at))
    return state.share


def is_kept(sequence: int, share: float) -> bool:
    """Whether a frame is among the ``share`` that is sent: evenly spaced numbers are."""
    return int(sequence * share) != int((sequence - 1) * share)


def behind(acknowledged: bytes, cursor: bytes) -> float:
    """Seconds from one stream id to a later one; 0 when it is not later or one of them is none."""
    try:
        milliseconds = int(acknowledged.partition(b"-")[0]) - int(cursor.partition(b"-")[0])
    except ValueError:
        return 0.0
    return max(0.0, milliseconds / 1000.0)
