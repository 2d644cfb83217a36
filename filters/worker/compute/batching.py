"""Batching of accepted frames; no state appears twice in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from acquisition.wire.frame import Frame
from filters.kernels.numpy_step import Codes
from filters.worker.partitions.batch import Batch
from filters.worker.states.state import State

#: Planes of a batch fit in the second-level cache of a core: about 50,000 samples.
_MOST_SAMPLES = 48 * 1024


class Item(NamedTuple):
    """A decoded frame to smooth, the state that it advances, and the batch that writes the result."""

    batch: Batch
    state: State
    frame: Frame


def batches(items: list[Item]) -> Iterator[list[Item]]:
    """Split so that no state appears twice in a batch and frames of one state keep their order."""
    rounds: list[list[Item]] = []
    seen: dict[int, int] = {}
    for item in items:
        turn = seen.get(id(item.state), 0)
        seen[id(item.state)] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(item)
    for one_round in rounds:
        batch: list[Item] = []
        samples = 0
        for item in one_round:
            batch.append(item)
            samples += item.frame.samples
            if samples >= _MOST_SAMPLES:
                yield batch
                batch, samples = [], 0
        if batch:
            yield batch


def join_codes(items: list[Item]) -> Codes | None:
    """Concatenated codes of all frames; None if all samples are valid."""
    if not any(item.frame.codes for item in items):
        return None
    return np.frombuffer(b"".join([item.frame.codes or bytes(item.frame.samples) for item in items]), np.uint8)
