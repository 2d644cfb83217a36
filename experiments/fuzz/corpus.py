"""Corpus of captures to mutate: test fixtures, hostile ones included."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from acquisition.errors import NoInputError

_FIXTURES = Path(__file__).resolve().parents[2] / "tests" / "fixtures"


@cache
def captures(tool: str) -> tuple[tuple[bytes, ...], ...]:
    """The lines of every capture of ``vmstat`` or ``pidstat``. Raises NoInputError without any."""
    found = sorted((_FIXTURES / tool).glob("*.txt"))
    if not found:
        raise NoInputError(f"no captures in {_FIXTURES / tool}: fuzzing needs the checkout with its tests")
    return tuple(tuple(path.read_bytes().splitlines()) for path in found)


@cache
def all_lines() -> tuple[bytes, ...]:
    """Every line of every capture, of both tools."""
    return tuple(line for tool in ("vmstat", "pidstat") for lines in captures(tool) for line in lines)
