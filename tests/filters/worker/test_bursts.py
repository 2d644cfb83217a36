"""What is learned of bursts: by hand, and random loads against a plain transcription."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.wire.records.inputs import BURST_FIGURES, BURST_SLOTS
from filters.worker.inputs import bursts
from filters.worker.inputs.bursts import Step

COUNTED = 8
HOURS = 3 * 3600


def learned(load: Sequence[float | None], began: float = 0.0) -> dict[str, float]:
    """What one host is known by after a load of a sample per second; None: not valid."""
    kept = np.zeros((len(BURST_FIGURES), 1), np.float32)
    one = np.ones(1, np.float32)
    for second, value in enumerate(load):
        lately = [each for each in load[max(0, second - COUNTED + 1) : second + 1] if each is not None]
        above = np.array([sum(each > 0.9 for each in lately)], np.int16)
        x = np.array([np.nan if value is None else value], np.float32)
        slot = one * bursts.slot_of(began + second)
        bursts.advance(kept, Step(x, ~np.isnan(x), above, COUNTED, np.float32(0.9), one, one, slot))
    found = dict(zip(BURST_FIGURES, kept[:, 0].tolist(), strict=True))
    for name, of in (("longest", max), ("count", sum), ("height", max)):
        found[name] = of(found[f"{name}_{slot}"] for slot in range(BURST_SLOTS))
    return found


def burst(seconds: int, every: int = 60, height: float = 0.95) -> list[float]:
    return [height] * seconds + [0.5] * (every - seconds)


def test_bursts_of_the_last_three_hours_are_known() -> None:
    found = learned(burst(5) + burst(6, height=0.98) + burst(2) + burst(20))
    assert (found["longest"], found["count"], found["open"]) == (6.0, 2.0, 0.0)  # no spike, and no overload
    assert found["height"] == pytest.approx(0.98)
    assert learned(burst(6) + [0.5] * (HOURS - 1900))["longest"] == 6.0
    later = learned(burst(6) + [0.5] * (HOURS + 1800))
    assert (later["longest"], later["count"], later["height"]) == (0.0, 0.0, 0.0)


def test_excursion_goes_on_between_the_two_limits_and_over_gaps() -> None:
    assert learned([0.5, 0.95, 0.85, None, 0.81])["open"] == 3.0
    assert learned([0.5, 0.95, 0.85, None, 0.79])["open"] == 0.0
    assert learned([0.5, 0.85, 0.89])["open"] == 0.0


def test_bursts_at_equal_times_have_a_period() -> None:
    found = learned(burst(5) * 6 + [0.5] * 10)
    assert (found["period"], found["regular"], found["length"]) == (60.0, 4.0, 5.0)
    assert found["since"] == 70.0
    assert learned(burst(5) * 4 + burst(5, 90) + burst(5))["regular"] == 0.0


def test_held_lasts_from_three_quarters_until_none_is_above() -> None:
    assert learned([0.5] * 3 + [0.95] * 5)["held"] == 0.0
    assert learned([0.5] * 3 + [0.95] * 6)["held"] == 1.0
    wavering = [0.95, 0.95, 0.95, 0.75] * 5
    assert learned(wavering)["held"] == 14.0
    assert learned(wavering + [0.5] * COUNTED)["held"] == 0.0


values = st.sampled_from([0.5, 0.5, 0.79, 0.85, 0.91, 0.95, 0.95, None])


@given(st.lists(st.tuples(values, st.integers(1, 30)), max_size=120), st.integers(0, 100_000))
def test_what_is_learned_is_its_transcription(runs: list[tuple[float | None, int]], began: int) -> None:
    load = [value for value, seconds in runs for _ in range(seconds)]
    found: list[tuple[int, float]] = []  # slot of its end and length
    seconds = 0
    for second, value in enumerate(load):
        if value is None:
            continue
        if seconds and value < 0.8:
            if 3 <= seconds <= 15:
                found.append(((began + second) // 1800, seconds))
            seconds = 0
        elif seconds or value > 0.9:
            seconds += 1
    now = (began + len(load) - 1) // 1800
    lately = [length for slot, length in found if slot > now - BURST_SLOTS]
    kept = learned(load, began)
    assert (kept["open"], kept["count"]) == (seconds, len(lately))
    assert kept["longest"] == max(lately, default=0)
