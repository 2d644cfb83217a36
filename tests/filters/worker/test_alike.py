"""What hosts of one kind begin with is made once, and belongs to each of them alone."""

from dataclasses import replace

import numpy as np
import pytest

from acquisition.wire.records import recent
from acquisition.wire.records.smoothed import EXCEPTION
from filters.worker.inputs import state as module
from filters.worker.inputs.plan import Plan
from filters.worker.inputs.ring import Ring
from filters.worker.inputs.state import InputsState
from filters.worker.states.state import _MOST_KEPT, _unknown
from tests.filters.worker.test_step_native import plan
from tests.support.inputs_bench import VMS


def laid_out(found: Plan, entities: int) -> InputsState:
    state = InputsState(found, Ring("key", 1, VMS, found, recent.VERSION))
    state._lay_out(np.arange(1, entities + 1, dtype="<u8").tobytes())
    return state


@pytest.mark.parametrize("entities", [0, 1, 3, 101, module._MOST_BLANK_ENTITIES + 1])
def test_memory_of_the_second_host_is_that_of_the_first(entities: int) -> None:
    found = plan()
    first = laid_out(found, entities)
    expected = bytes(first.memory)
    first.memory[:] = b"\xff" * len(first.memory)
    second = laid_out(found, entities)
    assert bytes(second.memory) == expected
    second.arrays().seen[...] = 7
    assert bytes(laid_out(found, entities).memory) == expected


def test_hosts_of_another_plan_have_their_own() -> None:
    found = plan()
    other = replace(found, thresholds=found.thresholds + 1.0)
    before = bytes(laid_out(found, 5).memory)
    assert bytes(laid_out(other, 5).memory) != before
    assert bytes(laid_out(found, 5).memory) == before


def test_blanks_are_few_and_none_is_of_a_huge_host() -> None:
    found = plan()
    laid_out(found, module._MOST_BLANK_ENTITIES + 1)
    assert all(entities <= module._MOST_BLANK_ENTITIES for _, entities in module._BLANKS)
    for entities in range(1, 3 * module._MOST_BLANKS):
        laid_out(found, entities)
    assert len(module._BLANKS) <= module._MOST_BLANKS


@pytest.mark.parametrize("samples", [0, 1, 1515, _MOST_KEPT + 1])
def test_nothing_is_known_of_any_sample(samples: int) -> None:
    table = np.frombuffer(_unknown(samples), EXCEPTION)
    assert table["index"].tolist() == list(range(samples))
    assert np.isinf(table["age"]).all()
    assert not table["code"].any()


def test_entities_that_are_there_twice_share_a_slot() -> None:
    found = plan()
    ring = Ring("key", 1, VMS, found, recent.VERSION)
    told: list[bytes] = []
    slots = ring.place(np.array([9, 4, 9, 7], "<u8"), 1, 1.0, told.append)
    assert slots[0] == slots[2]
    assert len({int(slot) for slot in slots}) == 3
    ring = Ring("key", 1, VMS, found, recent.VERSION)
    assert ring.place(np.array([9, 4, 7], "<u8"), 1, 1.0, told.append).tolist() == [0, 1, 2]
