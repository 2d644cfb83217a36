"""Pacing of emulated hosts: the product's phases, or as fast as possible."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol

from acquisition.model.ticks import tick_of
from experiments.emulation.allowance import Allowance
from experiments.emulation.fleet import AcknowledgedT, Fleet, FleetHost, HostT
from probes.sampling.schedule import phase_of

_LONGEST_SLEEP = 0.05
_IDLE_SLEEP = 0.001
_FRAMES_PER_WAKE = 20  #: frames made together at high rates: a wake-up costs more than a frame
_SHORTEST_SLEEP, _LONGEST_GATHERING = 0.0005, 0.004
_TURN = 64  #: frames made between two looks at the sockets, in the closed loop and by late hosts

Stopped = Callable[[bool], bool]  #: called with whether orders have come; True: stop


class Turn(NamedTuple):
    """A host (its index) samples ``phase`` seconds after the beginning of each interval, in this ``slot`` of the
    ``slots`` of an interval, one for each of its own ticks."""

    phase: float
    host: int
    slot: int
    slots: int

    @staticmethod
    def of(host: FleetHost, interval: float, slots: int = 1) -> list[Turn]:
        """Turns of a host that samples ``slots`` times in each interval, at its hashed phase."""
        length = interval / slots
        phase = phase_of(host.number, length)
        return [Turn(slot * length + phase, host.index, slot, slots) for slot in range(slots)]


class ManyTurns(Protocol):
    """Makes the frames of many turns in one call."""

    def follow(self, turns: list[Turn], /) -> None:
        """Set the turns of ``make``, in order."""

    def make(self, turn: int, most: int, tick: int, base: float, ahead: float, /) -> tuple[int, int, bool]:
        """Make ``most`` frames at most, due ones from ``turn`` on; the interval ``tick`` begins at ``base`` of the wall
        clock, which is ``ahead`` of the monotonic one. Returns the next turn, the number of frames made, and whether
        that turn is due and has to be made singly."""


class Paced(Generic[HostT]):
    """Every host samples at its turns, by default once per interval at its hashed phase.

    Sampling times are those of the schedule, even if this process makes the frame later: its lateness counts as age. A
    host misses a tick that is more than an interval late. At high rates several frames are made at a time unless each
    is made ``alone``. Replies are read between late frames as well: a writer without acknowledgements drops frames sent
    long ago. ``many`` makes as many frames as it can. Hosts begin one after the other, over the first ``joining``
    intervals.
    """

    def __init__(
        self,
        fleet: Fleet[HostT],
        interval: float,
        turns: Sequence[Turn] | None = None,
        alone: bool = False,
        many: ManyTurns | None = None,
        joining: int = 0,
    ) -> None:
        self._fleet = fleet
        self._interval = interval
        if turns is None:
            turns = [turn for host in fleet.hosts for turn in Turn.of(host, interval)]
        self._places = {host.index: place for place, host in enumerate(fleet.hosts)}
        self._in_order = sorted(turns)
        self._turns: list[tuple[float, int, int, HostT]] = []
        self._many = many
        self._joining = joining
        gathering = _FRAMES_PER_WAKE * interval / len(turns)
        self._gathering = 0.0 if alone else max(_SHORTEST_SLEEP, min(gathering, _LONGEST_GATHERING))

    def run(self, stopped: Stopped) -> None:
        """Sample from the next whole interval on until stopped."""
        tick = tick_of(time.time(), self._interval) + 1
        for joined in range(1, self._joining):
            most = len(self._places) * joined // self._joining
            self._follow([turn for turn in self._in_order if self._places[turn.host] < most])
            if not self._one_tick(tick, stopped):
                return
            tick += 1
        self._follow(self._in_order)
        while self._one_tick(tick, stopped):
            tick += 1

    def _follow(self, turns: list[Turn]) -> None:
        hosts, places = self._fleet.hosts, self._places
        self._turns = [(turn.phase, turn.slot, turn.slots, hosts[places[turn.host]]) for turn in turns]
        if self._many is not None:
            self._many.follow(turns)

    def _one_tick(self, tick: int, stopped: Stopped) -> bool:
        """Let every host sample once; False when stopped."""
        ahead = time.time() - time.monotonic()  # reread every tick: the wall clock may be slewed
        base = tick * self._interval
        now, turn, made = time.monotonic(), 0, 0
        while turn < len(self._turns):
            phase, slot, slots, host = self._turns[turn]
            wall = base + phase
            due = wall - ahead
            while now < due or made >= _TURN:
                if now < due:
                    time.sleep(min(max(due - now, self._gathering), _LONGEST_SLEEP))
                if stopped(self._fleet.attend(0.0)):
                    return False
                now, made = time.monotonic(), 0
            if self._many is not None:
                before = turn
                turn, frames, alone = self._many.make(turn, _TURN - made, tick, base, ahead)
                now, made = time.monotonic(), made + frames
                if turn > before or not alone:
                    continue
            self._sample(host, tick * slots + slot, wall, due)
            turn, made = turn + 1, made + 1
        return not stopped(self._fleet.attend(0.0))

    def _sample(self, host: HostT, tick: int, wall: float, due: float) -> None:
        now = time.monotonic()
        late = now - due
        self._fleet.lag_seconds = max(self._fleet.lag_seconds, late)
        if late > self._interval:
            self._fleet.missed += 1
        else:
            early = host.early()
            self._fleet.sample(host, tick, wall - early, due - early, now)


class ClosedLoop(Generic[AcknowledgedT]):
    """Every host samples again as soon as its allowance permits (``experiments.emulation.allowance``): it has as many
    frames in flight as were smoothed in a short time, ``outstanding`` at most.

    So the offered load never exceeds the pipeline's capacity, and this limit is measured. The wall clock in frames is
    real, for measuring freshness; ticks and the monotonic clock move by one interval of the workload per frame, so that
    every frame is the tick after the one before it, as for real hosts.
    """

    def __init__(self, fleet: Fleet[AcknowledgedT], interval: float, outstanding: int) -> None:
        self._fleet = fleet
        self._interval = interval
        self._hosts = [(host, Allowance(outstanding)) for host in fleet.hosts]
        self._began = time.monotonic()
        self._first = tick_of(time.time(), interval)

    def run(self, stopped: Stopped) -> None:
        """Sample until stopped."""
        while True:
            made = 0
            for start in range(0, len(self._hosts), _TURN):
                now = time.monotonic()
                for host, allowance in self._hosts[start : start + _TURN]:
                    if now >= allowance.due or now >= host.due:
                        made += self._sample(host, allowance)
                        now = time.monotonic()
                if stopped(self._fleet.attend(0.0)):
                    return
            if not made and stopped(self._fleet.attend(_IDLE_SLEEP)):
                return

    def _sample(self, host: AcknowledgedT, allowance: Allowance) -> bool:
        now = time.monotonic()
        if not allowance.allows(host.made, host.waiting(), now):
            if now >= host.due:
                self._fleet.serve(host, now)
            return False
        allowance.spend(now)
        monotonic = self._began + host.made * self._interval
        self._fleet.sample(host, self._first + host.made, time.time(), monotonic, now)
        return True
