"""Native step of the probe, if it could be compiled.

It computes the same figures for half of the CPU time.

PROCESSES is the module ``probes.sources._process_step``, which reads the host as well, and COLUMNS is
``probes._columns``. If they were not compiled, or are switched off (``acquisition.compiled``), PROCESSES is None,
and COLUMNS is ``probes.sampling.columns``, which is the same in Python.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from acquisition import compiled
from acquisition.model import codes


def chosen() -> compiled.ChosenStep:
    """Step that the probe runs, and how to get the native one."""
    return compiled.chosen(PROCESSES is not None, compiled.PYTHON)


def _load() -> tuple[ModuleType | None, ModuleType]:
    defined = import_module("probes.sampling.columns")
    if compiled.switched_off():
        return None, defined
    try:
        processes, columns = import_module("probes.sources._process_step"), import_module("probes._columns")
    except ImportError:
        return None, defined
    compiled.complete(processes, "open_process", "close_processes", "read_processes", "read_host", "read_once")
    compiled.complete(columns, "outside", "unmarked", "unbalanced", "pack")
    return processes, compiled.agree(columns, {"VALID": codes.VALID})


PROCESSES, COLUMNS = _load()
