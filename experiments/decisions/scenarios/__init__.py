"""Scenarios: one table of generators, split into training and test.

A generator is a pure function ``(numpy generator, Size) -> Work``. Other packages add scenarios in one file: a module
with ``SCENARIOS``, a list of ``Scenario``, which ``--scenario FILE`` reads in addition to the table here.
"""

from __future__ import annotations

import runpy
from pathlib import Path

from acquisition.errors import DataError, NoInputError
from experiments.decisions.scenarios import measured, synthetic
from experiments.decisions.scenarios.work import TEST, TRAINING, Faults, Scenario, Size, Step, Void, Work, with_steps

SCENARIOS: tuple[Scenario, ...] = (*synthetic.SCENARIOS, *measured.SCENARIOS)


def from_file(path: Path) -> tuple[Scenario, ...]:
    """The scenarios of a Python file. Raises NoInputError, DataError."""
    try:
        found = runpy.run_path(str(path)).get("SCENARIOS")
    except OSError as error:
        raise NoInputError(f"{path}: cannot be read: {error}") from error
    if not found or not all(isinstance(each, Scenario) for each in found):
        raise DataError(f"{path}: expected SCENARIOS, a list of Scenario")
    for each in found:
        if min(each.interval, each.cores) < 1 or not (0.0 <= each.gaps <= 0.5 and 0.0 <= each.invalid <= 1.0):
            raise DataError(f"{path}: {each.name}: interval and cores from 1, gaps to 0.5, invalid to 1")
    return tuple(found)


__all__ = [
    "SCENARIOS", "TEST", "TRAINING", "Faults", "Scenario", "Size", "Step", "Void", "Work", "from_file", "with_steps",
]  # fmt: skip
