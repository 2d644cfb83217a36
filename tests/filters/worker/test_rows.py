"""Who stayed when rows come and go, and which slots of a ring they have then: as a plain comparison says."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from filters.worker.inputs.plan import InputsSettings
from filters.worker.inputs.ring import Ring
from filters.worker.inputs.rows import who_stayed
from filters.worker.partitions.settings import FilterSettings

_IDS = st.lists(st.integers(1, 12), unique=True, max_size=9)


def packed(ids: list[int]) -> bytes:
    return np.array(ids, "<u8").tobytes()


@settings(deadline=None)
@given(_IDS, _IDS)
def test_who_is_in_both_stayed(new: list[int], old: list[int]) -> None:
    stayed = who_stayed(packed(new), packed(old))
    carried = np.zeros(len(new), np.uint64)
    for here, there in stayed.runs:
        carried[here] = np.array(old, np.uint64)[there]
    assert carried.tolist() == [each if each in old else 0 for each in new]
    assert [new[place] for place in stayed.come] == [each for each in new if each not in old]
    assert [old[place] for place in stayed.gone] == [each for each in old if each not in new]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 12), max_size=9), min_size=2, max_size=8))
def test_a_ring_that_moves_gives_each_entity_one_slot(ticks: list[list[int]]) -> None:
    plan = FilterSettings(inputs=InputsSettings(thresholds={"*.x": 0.5})).plan(1, ("x",), 1.0)
    assert plan is not None
    moved, asked = (Ring("recent", 1, 1, plan, 1) for _ in range(2))
    told: tuple[list[bytes], list[bytes]] = ([], [])
    slots = moved.place(np.array(ticks[0], np.uint64), 1, 1.0, told[0].append)
    asked.place(np.array(ticks[0], np.uint64), 1, 1.0, told[1].append)
    for step, (old, new) in enumerate(itertools.pairwise(ticks), 2):
        stayed = who_stayed(packed(new), packed(old))
        slots = moved.move(slots, stayed, np.array(new, np.uint64), step, told[0].append)
        expected = asked.place(np.array(new, np.uint64), step, 1.0, told[1].append)
        assert slots.tolist() == expected.tolist()
        assert told[0] == told[1]  # what the shard is told
