"""The index of an outbox against a dictionary, and what it costs."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.outbox.frames.index import IN_MEMORY, Entry, Index
from acquisition.outbox.frames.window import SendWindow

SETS = (1, 7, 0xFFFFFFFF)
WINDOWS = {number: SendWindow(number, 1) for number in SETS}
U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
ENTRIES = st.builds(
    Entry,
    st.sampled_from([None, *WINDOWS.values()]),
    U64,
    U64,
    U32,
    st.integers(IN_MEMORY, (1 << 63) - 1),
    U32,
    st.floats(allow_nan=False),
    U64,
    st.booleans(),
)
#: What is added, then how many are dropped, then what is put in the place of which one.
STEPS = st.lists(
    st.tuples(st.lists(ENTRIES, max_size=40), st.integers(0, 60), st.integers(0, 1 << 20), ENTRIES), max_size=20
)


def check(index: Index, model: dict[int, Entry]) -> None:
    held = list(range(index.first, index.end))
    assert held == list(model)
    assert [index.entry(number) for number in held] == list(model.values())
    assert index.oldest_at == next((entry.at for entry in model.values()), float("inf"))
    places = [(entry.offset, entry.serial) for entry in model.values() if entry.offset >= 0]
    assert index.oldest_place == (places[0] if places else None)
    for number in (index.first - 1, index.end):
        with pytest.raises(KeyError):
            index.entry(number)


@given(STEPS)
def test_index_is_a_dictionary(steps: list[tuple[list[Entry], int, int, Entry]]) -> None:
    index, model = Index(WINDOWS), dict[int, Entry]()
    for added, dropped, place, other in steps:
        for entry in added:
            model[index.end] = entry
            if entry.window is None or entry.shed:
                index.extend([entry])
            else:
                index.add(entry.window, *entry[1:-1])
        check(index, model)
        if model:
            number = list(model)[place % len(model)]
            index.put(number, other)
            model[number] = other
        check(index, model)
        for _ in range(min(dropped, len(model))):
            assert index.drop() == model.pop(next(iter(model)))
        check(index, model)
    index.clear()
    check(index, {})


def test_nothing_can_be_taken_from_an_empty_index() -> None:
    index = Index(WINDOWS)
    with pytest.raises(KeyError):
        index.drop()
    with pytest.raises(KeyError):
        index.put(0, Entry(None, 1, 1, 1, 0, 1, 1.0, 1))


def test_an_entry_costs_less_than_a_hundred_bytes() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        index = Index(WINDOWS)
        for number in range(5000):  # ten minutes of two resource sets, four times over
            if index.end - index.first == 1200:
                index.drop()
            index.add(WINDOWS[7], number + 1, 300 * number, 300, 2000 * number, 1900, 0.5 * number, number + 1)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100 * 1200
