"""Smoothed records: golden bytes of every version, and what is none."""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.errors import FrameError
from acquisition.wire.records import inputs, smoothed
from tests.support import FIXTURES
from tests.support.scene import record
from tests.support.sections import section

MEAN = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def made() -> bytes:
    beside = inputs.encode(section())
    return record(7, 9, [11, 12, 13], MEAN, 100, sequence=3, exceptions=((4, 3, 2.5),), section=beside)


@pytest.mark.parametrize("version", smoothed.VERSIONS)
def test_golden_bytes(version: int) -> None:
    golden = (FIXTURES / "frames" / f"smoothed-{version}.bin").read_bytes()
    if version == smoothed.VERSION:
        assert made() == golden
    found = smoothed.decode(golden)
    assert (found.host, found.resource_set, found.tick, found.sequence) == (7, 9, 100, 3)
    assert (found.ids.tolist(), found.planes["mean"].tolist()) == ([11, 12, 13], MEAN.tolist())
    assert (found.codes()[2].tolist(), found.ages()[2].tolist()) == ([3, 0], [2.5, 0.0])


def test_decision_inputs_are_read_without_the_planes() -> None:
    data = made()
    head = smoothed.unpack_head(data)
    assert head.ids_at == smoothed.HEADER_SIZE + head.inputs_size
    cut = smoothed.section(data[: head.ids_at], head)
    assert inputs.decode(cut, head.entities).names == ("metric_0", "metric_1")


def test_a_record_without_decision_inputs_or_with_damaged_ones_is_one() -> None:
    without = record(7, 9, [11, 12, 13], MEAN, 100)
    assert smoothed.check(without).inputs_size == len(smoothed.section(without, smoothed.check(without))) == 0
    damaged = record(7, 9, [11, 12, 13], MEAN, 100, section=b"?" * 16)
    assert smoothed.decode(damaged).planes["mean"].tolist() == MEAN.tolist()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"SPSM", "short"),
        (b"SPXX" + made()[4:], "magic"),
        (made()[:4] + bytes((smoothed.VERSION + 1,)) + made()[5:], "newer"),
        (made()[:4] + bytes((smoothed.VERSION + 2,)) + made()[5:], "version"),
        (made()[:-1], "shape"),
        (record(7, 9, [11, 12, 13], MEAN, 100, section=b"?" * 12), "shape"),
    ],
)
def test_what_is_no_record_that_this_version_reads(data: bytes, reason: str) -> None:
    with pytest.raises(FrameError) as caught:
        smoothed.decode(data)
    assert caught.value.reason == reason
