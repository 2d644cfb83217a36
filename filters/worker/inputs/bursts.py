"""Bursts of a host's CPU: numpy definition of learning in the native step.

An excursion lasts from a value above the threshold until one that is FALL below it. One of LEAST to MOST seconds is a
burst; shorter ones are spikes, longer ones overloads, and neither is learned. For the last three hours, the length of
the longest burst, the number of bursts and their height are kept in slots of half an hour; for periodic bursts, also
the period. ``acquisition.wire.records.inputs.BURST_FIGURES`` lists the names of the figures kept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.records.inputs import BURST_FIGURES, BURST_SLOTS, Floats

LEAST, MOST = np.float32(3.0), np.float32(15.0)
FALL = np.float32(0.1)
SLOT_SECONDS = 1800.0
SLOT_NUMBERS = float(1 << 20)  #: exact in float32; they wrap around after 20 years
SAME_SHARE, SAME_SECONDS = np.float32(0.1), np.float32(3.0)  #: maximum difference of two equal periods
OPEN, PEAK, HELD, SLOT, SINCE, LENGTH, PERIOD, REGULAR, LONGEST = map(
    BURST_FIGURES.index,
    ("open", "peak", "held", "slot", "since", "length", "period", "regular", "longest_0"),
)
COUNT, HEIGHT = LONGEST + BURST_SLOTS, LONGEST + 2 * BURST_SLOTS
_NOTHING = np.float32(0.0)


class Step(NamedTuple):
    """One tick of R hosts: samples, NaN if not ``usable``; number of the last ``counted`` values above the threshold;
    seconds covered by a sample and since the previous tick; number of the slot (all (R,))."""

    x: Floats
    usable: npt.NDArray[np.bool_]
    above: npt.NDArray[np.int16]
    counted: int
    threshold: np.float32
    seconds: Floats
    dt: Floats
    slot: Floats


def slot_of(monotonic: float) -> np.float32:
    """The slot number of a time of the host's clock; 0 for impossible times."""
    with np.errstate(invalid="ignore"):
        number = np.fmod(np.floor(monotonic / SLOT_SECONDS), SLOT_NUMBERS)
    return np.float32(number if number >= 0 else 0)


def advance(kept: Floats, step: Step) -> None:
    """Advance ``kept`` (B, R) by one tick, in place."""
    _turn_slots(kept, step.slot)
    kept[SINCE] += step.dt
    is_open = kept[OPEN] > 0
    with np.errstate(invalid="ignore"):
        begins = step.usable & ~is_open & (step.x > step.threshold)
        goes_on = step.usable & is_open & (step.x >= step.threshold - FALL)
    ends = step.usable & is_open & ~goes_on
    _learn(kept, ends & (kept[OPEN] >= LEAST) & (kept[OPEN] <= MOST), step)
    length = np.where(begins, step.seconds, np.where(goes_on, kept[OPEN] + step.seconds, kept[OPEN]))
    kept[OPEN] = np.where(ends, _NOTHING, length)
    kept[PEAK] = np.where(begins, step.x, np.where(goes_on & (step.x > kept[PEAK]), step.x, kept[PEAK]))
    begun = (kept[HELD] > 0) | (4 * step.above >= 3 * step.counted)
    kept[HELD] = np.where(begun & (step.above > 0), kept[HELD] + step.seconds, _NOTHING)


def _turn_slots(kept: Floats, slot: Floats) -> None:
    """Clear the slots that begin; all of them if the clock went back."""
    turned = slot - kept[SLOT]
    turned = np.where((turned >= 0) & (turned <= BURST_SLOTS), np.floor(turned), np.float32(BURST_SLOTS))
    for place in range(BURST_SLOTS):
        new = np.mod(slot - place, BURST_SLOTS) < turned
        for plane in (LONGEST, COUNT, HEIGHT):
            kept[plane + place][new] = _NOTHING
    kept[SLOT] = slot


def _learn(kept: Floats, burst: npt.NDArray[np.bool_], step: Step) -> None:
    """Count the bursts that end with this tick, which is not part of them."""
    for row in np.flatnonzero(burst):
        place = int(step.slot[row]) % BURST_SLOTS
        length, peak = kept[OPEN, row], kept[PEAK, row]
        kept[LONGEST + place, row] = max(kept[LONGEST + place, row], length)
        kept[COUNT + place, row] += 1
        kept[HEIGHT + place, row] = max(kept[HEIGHT + place, row], peak)
        begun = length + step.dt[row]  # seconds ago
        period = kept[SINCE, row] - begun
        near = max(SAME_SHARE * kept[PERIOD, row], SAME_SECONDS)
        kept[REGULAR, row] = kept[REGULAR, row] + 1 if abs(period - kept[PERIOD, row]) <= near else 0.0
        kept[PERIOD, row], kept[SINCE, row], kept[LENGTH, row] = period, begun, length
