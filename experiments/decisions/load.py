"""Load of a run: the demand of every VM at 1 Hz, with the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Sizes of VMs in GiB, drawn evenly: the time of a migration follows from them.
MEMORY_GIB = (1.0, 2.0, 4.0, 8.0)


class Load(NamedTuple):
    """One scenario of T ticks of a second, H hosts, V VMs.

    ``demand`` (T, V) is what each VM asks for, a ratio of its host's CPUs, the mean over the tick; ``level``
    (T, V) the part of it that is sustained: no noise, no spike. ``home`` (V,) is the host at the start. A host is
    measured wrong where ``valid`` (T, H) is False (the checks noticed) or ``wrong`` (T, H) is not NaN (they did
    not). ``before`` (B, H) is what the hosts measured in the time before the run: windows start full.
    """

    name: str
    demand: Floats
    level: Floats
    home: Ints
    memory: Floats
    valid: Bools
    wrong: Floats
    before: Floats

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return int(self.valid.shape[1])

    @property
    def ticks(self) -> int:
        """Length in seconds."""
        return int(self.demand.shape[0])


def per_host(values: Floats, home: Ints, hosts: int) -> Floats:
    """The sums (T, H) of per-VM values (T, V) over the VMs of each host."""
    membership = np.zeros((values.shape[1], hosts), np.float32)
    membership[np.arange(values.shape[1]), home] = 1.0
    return (values @ membership).astype(np.float32)


def measured(demand: Floats) -> Floats:
    """Load that a host's CPU counters show of a demand: never below 0, never above all cores."""
    return np.clip(demand, 0.0, 1.0).astype(np.float32)


def memory_of(generator: np.random.Generator, vms: int) -> Floats:
    """Sizes of VMs in GiB."""
    return generator.choice(np.asarray(MEMORY_GIB, np.float32), vms)
