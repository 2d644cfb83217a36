"""Shedding rule: number of frames that an overloaded probe drops (pure).

A probe measures overload end to end and on one clock: by the age of its oldest frame that is neither
applied nor shed. That age may grow for two reasons. If the filter's cursor *stands still*, a part is down,
frozen or failing over: a fault. Everything is then kept and sent later, and the age is excused (``base``).
If the cursor *moves* and the age grows all the same, more is made than is applied: overload. A
catch-up after a fault makes the age fall, and one that waits for its turn stands still: neither is overload.

Shedding follows from the fair share published by the filter (``filters.worker.loop.fair_share``): a probe that
makes more samples than that thins its frames to ``share`` = fair share / rate, one that makes less
sheds nothing for five times as long. So the most talkative go first (max-min fairness: Bertsekas and
Gallager, Data Networks, section 6.5.2). Afterwards the share is cut whenever the filter falls behind again,
and rises otherwise (additive increase, multiplicative decrease: Chiu and Jain 1989),
until everything is sent.

A sent frame cannot be taken back. So a probe also *holds* frames, which loses nothing, as soon as
the filter is behind with frames of this probe that the shard already has; and while it falls further behind, only
frames within a ``window`` are on their way.
"""

from __future__ import annotations

from typing import NamedTuple

from acquisition.wire import stream_id

#: Excess age, in seconds, that is too much. The following values are in units of it.
SHED_AFTER = 5.0
#: Excess of hosts above the fair share, where two signs agree on overload; of all others
#: while the filter is behind; and while it is not: then the way to the shard is slow, a fault unless it lasts.
_TALKATIVE, _PATIENT, _WAY = 0.4, 2.0, 12.0
#: The filter is behind; it stands still.
_BEHIND, _STILL = 0.2, 0.6
#: How much later than the oldest frame on its way one may have been made: for a saturated filter, else.
_WINDOW, _WIDE_WINDOW = 0.2, 0.4
_CUT = 0.8
#: Rise of the share per second, and after the filter has withdrawn its fair share.
_RISE, _FREE_RISE = 0.02, 0.25
_FIRST_CUT = 0.7  #: the share without a fair share
#: At least a twentieth of a host's frames is sent: it must remain visible.
_LEAST = 0.05
_INFINITY = float("inf")


class Congestion(NamedTuple):
    """Congestion on the way to the filter, from one reading of the positions; seconds, samples per second."""

    now: float  #: CLOCK_MONOTONIC
    age: float  #: since the oldest frame neither applied nor shed was made; 0: there is none
    behind: float  #: from the filter's cursor to the newest acknowledged frame, by the shard's clock; 0: passed
    moved: bool  #: the filter has advanced since the previous reading
    rate: float  #: samples per second made by this host
    fair_share: float = 0.0  #: samples per second that the filter accepts from every host; 0: all


class Shedding(NamedTuple):
    """``share`` of the frames is sent; while ``hold``, none is sent and none is shed."""

    share: float = 1.0
    hold: bool = False
    base: float = _INFINITY  #: age explained by faults
    at: float = 0.0  #: of the last reading
    moved_at: float = _INFINITY
    behind_at: float = -_INFINITY  #: when the filter was last seen behind: holding hides it
    window: float = _INFINITY  #: seconds of frames that may be in flight
    has_fair_share: bool = False  #: the filter has published one since shedding began

    @property
    def is_active(self) -> bool:
        """Whether frames are being shed."""
        return self.share < 1.0

    @property
    def is_restrained(self) -> bool:
        """Whether frames wait or are shed, so that readings should be frequent."""
        return self.hold or self.share < 1.0 or self.window < _INFINITY

    def reading(self, interval: float, after: float = SHED_AFTER) -> float:
        """Seconds to the next reading of a probe that reads every ``interval`` seconds. While it is restrained, one
        window of frames goes with each, so readings are a window apart: otherwise it would fall behind."""
        return min(interval / 2.0, _WINDOW * after) if self.is_restrained else interval


#: After any doubt (a new connection, a position that went back), which was a fault.
NORMAL = Shedding()


def advance(state: Shedding, reading: Congestion, after: float = SHED_AFTER) -> Shedding:
    """The state after a reading. ``after`` is the bound on the age in seconds; infinite: never shed."""
    now, age = reading.now, reading.age
    moved_at = now if reading.moved or not age else min(now, state.moved_at)
    if now - moved_at > _STILL * after:
        return Shedding(base=age, at=now, moved_at=moved_at)
    is_behind = reading.behind >= _BEHIND * after
    behind_at = now if is_behind else state.behind_at
    base = min(state.base, age)
    excess = age - base
    is_restrained = state.window < _INFINITY and excess > _BEHIND * after
    filter_is_slow = is_restrained or now - behind_at <= after
    first = _first(reading, excess, after, filter_is_slow)
    share = _adjusted(state, reading, is_behind, after) if state.is_active else first
    window = _INFINITY
    if filter_is_slow and (reading.fair_share or excess > _BEHIND * after):
        window = (_WINDOW if reading.fair_share else _WIDE_WINDOW) * after
    has_fair_share = reading.fair_share > 0.0 or (state.has_fair_share and share < 1.0)
    return Shedding(share, is_behind, base, now, moved_at, behind_at, window, has_fair_share)


def _first(reading: Congestion, excess: float, after: float, filter_is_slow: bool) -> float:
    """Share of a probe that has sent everything so far."""
    talkative = 0.0 < reading.fair_share < reading.rate
    patience = _WAY if not filter_is_slow else _TALKATIVE if talkative else _PATIENT
    if excess <= patience * after:
        return 1.0
    return max(_LEAST, reading.fair_share / reading.rate if talkative else _FIRST_CUT)


def _adjusted(state: Shedding, reading: Congestion, is_behind: bool, after: float) -> float:
    """Share of a probe that sheds: cut once whenever the filter falls behind, raised while data are fresh."""
    if is_behind and not state.hold:
        fair = reading.fair_share / reading.rate if 0.0 < reading.fair_share < reading.rate else 1.0
        return max(_LEAST, min(fair, state.share * _CUT))
    if is_behind or reading.age > _BEHIND * after:
        return state.share
    rise = _FREE_RISE if state.has_fair_share and not reading.fair_share else _RISE
    return min(1.0, state.share + rise * (reading.now - state.at))


def is_kept(sequence: int, share: float) -> bool:
    """Whether a frame is in the ``share`` that is sent: evenly spaced numbers."""
    return int(sequence * share) != int((sequence - 1) * share)


def behind(acknowledged: bytes, cursor: bytes) -> float:
    """Seconds from one stream id to a later one; 0 if it is not later or one of them is invalid."""
    later, earlier = stream_id.parse(acknowledged)[0], stream_id.parse(cursor)[0]
    return max(0.0, (later - earlier) / 1000.0) if later >= 0 and earlier >= 0 else 0.0
