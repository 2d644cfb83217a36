"""View of a run: the hosts as seen by each judge, at its interval."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.decisions.hosts import Hosts, valid
from experiments.decisions.scenarios import Faults, Scenario, Size
from experiments.simulation.arrays import Bools, Doubles, Ints
from experiments.simulation.contention import Second
from experiments.simulation.filtering import Filtered
from filters.decisions.picture import CPU, Picture


class Sight:
    """``values`` (H,) by metric and ``valid`` (H,) are from the newest second, ``picture`` from the newest sample.

    Judges with the same sampling interval share one filter.
    """

    def __init__(self, scenario: Scenario, size: Size, faults: Faults, intervals: Iterable[tuple[int, bool]]) -> None:
        self.values: dict[str, Doubles] = {}
        self.valid: Bools = faults.codes[0] == 0
        self._faults, self._probe = faults, scenario.interval
        wanted: dict[int, bool] = {}
        for interval, history in intervals:
            seconds = interval or self._probe
            wanted[seconds] = wanted.get(seconds, False) or history
        self._filters = {
            seconds: Filtered(size.hosts, size.hosts * size.vms, seconds, history)
            for seconds, history in wanted.items()
        }
        self._newest: dict[int, Picture] = {}
        self._fresh: set[int] = set()

    def take(self, second: int, hosts: Hosts, done: Second, observed: Ints) -> None:
        """Add a second; guests have been on their hosts for ``observed`` (V,) seconds."""
        seen, guests = (make(done, self._faults, second) for make in (hosts.host_columns, hosts.guest_columns))
        self.values, self.valid = {**seen.values, CPU: done.busy}, valid(seen)
        self._fresh = {seconds for seconds, each in self._filters.items() if each.take(second, seen, guests)}
        for seconds in self._fresh:
            self._newest[seconds] = self._filters[seconds].picture(second, hosts.place, observed)

    def fresh(self, interval: int) -> Picture | None:
        """All hosts if this second completes a sample of this interval (0: the probe's), else None."""
        seconds = interval or self._probe
        return self._newest[seconds] if seconds in self._fresh else None

    def newest(self, interval: int) -> Picture | None:
        """All hosts by the newest complete sample."""
        return self._newest.get(interval or self._probe)
