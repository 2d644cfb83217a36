from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.archive.database import binary, compaction
from filters.archive.minutes.escape import escape, signed, unescape, unsigned
from filters.archive.minutes.merging import combine, merge
from filters.archive.minutes.values import Statistic
from tests.support.archive_rows import matrix, rollup


@given(st.text(st.characters(codec=None)))
def test_any_text_survives(text: str) -> None:
    kept = escape(text)
    assert "\0" not in kept
    kept.encode()
    assert unescape(kept) == text


@given(st.integers(0, (1 << 64) - 1))
def test_every_id_survives(number: int) -> None:
    assert -(1 << 63) <= signed(number) < 1 << 63
    assert unsigned(signed(number)) == number


@pytest.mark.parametrize("cut", [0, 1, 30, 59])
def test_a_minute_in_two_parts_is_the_minute(cut: int) -> None:
    random = np.random.default_rng(cut)
    samples = random.normal(100, 3, (60, 4, 3)).astype(np.float32)
    samples[random.random(samples.shape) < 0.3] = np.nan
    samples[:, 0, 0] = np.nan  # never valid
    whole = rollup(samples)
    parts = combine(np.stack([rollup(samples[:cut]), rollup(samples[cut:])]))
    np.testing.assert_allclose(parts[:7], whole[:7], rtol=1e-4, equal_nan=True)


def test_late_samples_join_their_minute_in_the_order_of_ticks() -> None:
    samples = np.arange(12, dtype=np.float32).reshape(6, 1, 2)
    known = matrix(60, samples[3:], (9,), tick=65)
    late = matrix(60, samples[:3], (9,), tick=62, late=3)
    for merged in (merge(known, late), merge(late, known)):
        np.testing.assert_allclose(merged.values[:7], rollup(samples)[:7])
        assert (merged.tick, merged.late) == (65, 3)


def test_late_entities_are_added_and_percentiles_stay() -> None:
    samples = np.ones((2, 1, 2), np.float32)
    known = matrix(60, samples, (9,))
    known.values[Statistic.P95] = 7
    merged = merge(known, matrix(60, samples * 3, (4,)))
    assert merged.ids.tolist() == [4, 9]
    assert merged.values[Statistic.MEAN].tolist() == [[3, 3], [1, 1]]
    assert np.isnan(merged.values[Statistic.P95, 0]).all()
    assert merged.values[Statistic.P95, 1].tolist() == [7, 7]


_FLOATS = st.floats(width=32, allow_infinity=False) | st.just(float("nan"))


@given(st.lists(_FLOATS, min_size=1, max_size=60))
def test_a_chunk_is_off_by_half_a_step_at_most(figures: list[float]) -> None:
    values = np.full((1, 8, 1, len(figures)), np.array(figures, np.float32))
    values[:, : Statistic.MEAN] = 60
    made = compaction.encode(values)
    read = compaction.decode(made.offsets[0], made.steps[0], made.codes[0])
    there = values[0, Statistic.MEAN]
    got = read[Statistic.MEAN]
    assert (np.isnan(got) == np.isnan(there)).all()
    if not np.isnan(there).all():
        reach = float(np.nanmax(there)) - float(np.nanmin(there))
        rounding = float(np.nanmax(np.abs(there))) * 2.0**-22 + 1e-40  # a step may be too small for float32
        assert np.nanmax(np.abs(got.astype(float) - there)) <= reach / 131_068 * 1.01 + rounding
    assert made.plain[0, 0]
    assert (read[0] == 60).all()


def test_counts_are_exact() -> None:
    counts = np.array([0, 60, 59, 3600, 65534], np.float32)
    made = compaction.encode(np.full((1, 8, 1, 5), counts))
    read = compaction.decode(made.offsets[0], made.steps[0], made.codes[0])
    assert read[Statistic.COUNT, 0].tolist() == counts.tolist()


def test_binary_rows_come_back() -> None:
    kinds = ("q", "d", "i", "h", "?", "t", "f4", "i2", "i8", "q")
    row = (
        -5,
        0.5,
        7,
        -3,
        True,
        "ä\n\t\\",
        np.array([1.5, np.nan], "f4"),
        np.array([3], "i2"),
        np.array([1 << 62]),
        None,
    )
    (read,) = binary.decode(kinds, binary.encode(kinds, [row]))
    for got, given_ in zip(read, row, strict=True):
        np.testing.assert_equal(got, given_)
