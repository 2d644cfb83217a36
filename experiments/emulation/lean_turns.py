"""Turns of a fleet of lean hosts, and their lanes."""

from __future__ import annotations

import time

from experiments.emulation import lanes as native
from experiments.emulation.emulated_host import JITTER_STEPS, Common, SampledHost
from experiments.emulation.fleet import Fleet
from experiments.emulation.lanes import Lanes, Outcome
from experiments.emulation.lean_host import LeanHost
from experiments.emulation.pacing import Turn
from experiments.emulation.values import STRIP_ROWS

_COMMAND_ROOM = 256  #: bytes of an XADD beside its frame, at most


class LeanTurns:
    """The turns of a fleet of lean hosts, many in one call, for ``pacing.Paced``."""

    def __init__(self, lanes: Lanes, fleet: Fleet[SampledHost], first: int) -> None:
        self._lanes = lanes
        self._fleet = fleet
        self._first = first  #: the index of the host with the first lane
        self._turns: list[Turn] = []

    def follow(self, turns: list[Turn]) -> None:
        """Set the turns of ``make``."""
        self._turns = turns
        self._lanes.follow([(turn.phase, turn.host - self._first, turn.slot, turn.slots) for turn in turns])

    def make(self, turn: int, most: int, tick: int, base: float, ahead: float) -> tuple[int, int, bool]:
        """Make ``most`` frames at most, due ones from ``turn`` on; returns the next turn, the number of frames made,
        and whether that turn is due and has to be made singly."""
        made = self._lanes.run(turn, most, tick, base, ahead)
        self._fleet.count(made.frames, made.samples, made.missed, made.lag)
        if made.outcome is Outcome.REST:
            host = self._fleet.hosts[self._turns[made.turn].host - self._first]
            assert isinstance(host, LeanHost)
            host.send_rest(made.rest)
            self._fleet.serve(host, time.monotonic())
            return made.turn + 1, made.frames, False
        return made.turn, made.frames, made.outcome is Outcome.PYTHON


def lanes_of(common: Common, count: int) -> Lanes | None:
    """Lanes for the hosts; None if they cannot be compiled."""
    library = native.load()
    if library is None:
        return None
    workload, strip = common.workload, common.strip
    what = {
        "interval": workload.interval, "strip_rows": STRIP_ROWS, "stride": strip.stride, "metrics": workload.metrics,
        "schema": common.schema, "set": common.set_id, "churn_period": workload.churn_frames,
        "jitter_steps": JITTER_STEPS, "most_rows": workload.entities,
    }  # fmt: skip
    room = common.frame_bytes() + _COMMAND_ROOM
    return Lanes(count, what, strip.values, strip.codes, strip.invalid_before, room, library)
