"""Lanes of lean hosts, served in one call in C if it could be compiled.

A generator shares the cores with the measured pipeline. A frame of a lean host took it 31 microseconds, mostly for the
interpreter and uncached memory, as each host consists of some forty objects. ``lanes.c`` makes the frame of
``LeanWriter`` from one record of 88 bytes, and sends it: the same bytes over the same connection. A lane describes its
host; Python updates it after serving the host, and reads from it which frames were made meanwhile.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from ctypes import POINTER, byref, c_double, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acquisition.errors import UnavailableError

_SOURCE = Path(__file__).with_name("lanes.c")
_COMPILE_SECONDS = 60.0
#: Bits of ``Lane.plain``: C may make frames; each has to be noted, so that only ``one`` may be used.
PLAIN, LOGGED = 1, 2


class Outcome(IntEnum):
    """How a call ended: with nothing left to do, before a frame that Python has to make, or after one not fully taken
    by the socket."""

    DONE = 0
    PYTHON = 1
    REST = 2


class Lane(ctypes.Structure):
    """Parts of a host's frame; ``plain`` is whether C may make it before ``due``."""

    _fields_ = (
        ("host", c_uint64), ("epoch", c_uint64), ("last", c_uint64), ("made", c_uint64), ("frames", c_uint64),
        ("due", c_double), ("ids", c_void_p), ("head", c_void_p), ("descriptor", c_int32), ("head_size", c_uint32),
        ("rows", c_uint32), ("start", c_uint32), ("churn_phase", c_uint32), ("plain", c_uint32),
    )  # fmt: skip


class Common(ctypes.Structure):
    """Values common to all frames."""

    _fields_ = (
        ("values", c_void_p), ("codes", c_void_p), ("invalid_before", c_void_p), ("interval", c_double),
        ("strip_rows", c_uint32), ("stride", c_uint32), ("metrics", c_uint32), ("schema", c_uint32), ("set", c_uint32),
        ("churn_period", c_uint32), ("jitter_steps", c_uint32), ("most_rows", c_uint32),
    )  # fmt: skip


class NativeTurn(ctypes.Structure):
    """A turn of ``pacing``."""

    _fields_ = (("phase", c_double), ("lane", c_uint32), ("slot", c_uint32), ("slots", c_uint32))


class Done(ctypes.Structure):
    """Result of a call; ``turn`` is the next one."""

    _fields_ = (
        ("frames", c_uint64), ("samples", c_uint64), ("missed", c_uint64), ("lag", c_double), ("turn", c_uint32),
        ("rest_size", c_uint32),
    )  # fmt: skip


class Made(NamedTuple):
    """``rest`` is the part of the last frame not taken by the socket."""

    outcome: Outcome
    frames: int
    samples: int
    missed: int
    lag: float
    turn: int
    rest: bytes


class Lanes:
    """The lanes of ``count`` hosts. ``values`` (float32) and ``codes`` (uint8) are rows of a strip, ``invalid_before``
    counts invalid samples; ``frame_bytes`` is the maximum size of a command."""

    def __init__(
        self,
        count: int,
        common: dict[str, float],
        values: np.ndarray[Any, np.dtype[np.float32]],
        codes: np.ndarray[Any, np.dtype[np.uint8]],
        invalid_before: Sequence[int],
        frame_bytes: int,
        library: ctypes.CDLL,
    ) -> None:
        self._kept = (np.ascontiguousarray(values), np.ascontiguousarray(codes), np.array(invalid_before, np.int32))
        addresses = dict(
            zip(("values", "codes", "invalid_before"), (part.ctypes.data for part in self._kept), strict=True)
        )
        self.lanes = (Lane * count)()
        self._common = Common(**addresses, **common)
        self._done = Done()
        self._rest = ctypes.create_string_buffer(frame_bytes)
        self._library = library
        self._turns: ctypes.Array[NativeTurn] = (NativeTurn * 0)()

    def follow(self, turns: Sequence[tuple[float, int, int, int]]) -> None:
        """Set the turns of ``run``: phase, number of the lane, slot and slots of each, in order."""
        self._turns = (NativeTurn * len(turns))(*(NativeTurn(*turn) for turn in turns))

    def one(self, number: int, tick: int, wall: float, monotonic: float) -> Made:
        """Make and send the next frame of a lane."""
        outcome = self._library.one(
            byref(self.lanes[number]), byref(self._common), tick, wall, monotonic, byref(self._done), self._rest
        )
        return self._made(outcome)

    def run(self, turn: int, most: int, tick: int, base: float, ahead: float) -> Made:
        """Make and send ``most`` frames at most: due ones, from ``turn`` on. ``tick`` begins at ``base`` of
        the wall clock, which is ``ahead`` of the monotonic one."""
        outcome = self._library.run(
            self.lanes, byref(self._common), self._turns, turn, len(self._turns), most, tick, base, ahead,
            byref(self._done), self._rest,
        )  # fmt: skip
        return self._made(outcome)

    def _made(self, outcome: int) -> Made:
        done = self._done
        rest = self._rest.raw[: done.rest_size] if outcome == Outcome.REST else b""
        return Made(Outcome(outcome), done.frames, done.samples, done.missed, done.lag, done.turn, rest)


def address(data: bytes) -> int:
    """Address of the bytes, valid as long as the object is kept."""
    found = ctypes.cast(ctypes.c_char_p(data), c_void_p).value
    assert found is not None
    return found


def load() -> ctypes.CDLL | None:
    """``lanes.c``, compiled; None, with a message on stderr, if that is impossible."""
    compiler = shutil.which("cc")
    if compiler is None:
        print("generator: no cc, so lean hosts take more CPU: apt install gcc libc6-dev", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "lanes.so"
        command = [compiler, "-O3", "-shared", "-fPIC", "-o", str(made), str(_SOURCE)]
        tried = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
        if tried.returncode:
            print(f"generator: {_SOURCE.name} cannot be compiled: {tried.stderr.strip()}", file=sys.stderr)
            return None
        library = ctypes.CDLL(str(made))
    found, own = (c_uint32 * 4)(), [ctypes.sizeof(each) for each in (Lane, Common, NativeTurn, Done)]
    library.sizes(found)
    if list(found) != own:
        raise UnavailableError(f"the structures of {_SOURCE.name} have {list(found)} bytes, those of lanes.py {own}")
    library.prepare()
    library.one.argtypes = [
        POINTER(Lane), POINTER(Common), c_int64, c_double, c_double, POINTER(Done), c_void_p,
    ]  # fmt: skip
    library.run.argtypes = [
        POINTER(Lane), POINTER(Common), POINTER(NativeTurn), c_uint32, c_uint32, c_uint32, c_int64, c_double, c_double,
        POINTER(Done), c_void_p,
    ]  # fmt: skip
    library.one.restype = library.run.restype = c_int
    return library
