"""The verdicts of the last hot list, for hosts of which nothing has come since: they stand, and are older.

A verdict follows from a host's own figures, whether the host was hot before, and the rule. A scheduler that asks
several times within a tick finds most hosts with the record of before: of these nothing is read in full, and nothing
is made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.column import Bools
from acquisition.snapshot.states import CURRENT
from acquisition.snapshot.survey import Survey
from filters.decisions.heat import Heat
from filters.decisions.method import Method
from filters.decisions.picture import Host, Picture, Reading
from filters.decisions.verdict import Verdict, aged


class _Last(NamedTuple):
    record: bytes
    was_hot: bool
    host: Host
    verdict: Verdict
    at: float  #: by the reader's clock


class LastVerdicts:
    """What the hot lists of one reader by one method have said; whoever asks again and again keeps it."""

    def __init__(self) -> None:
        self._method: Method | None = None
        self._last: dict[str, _Last] = {}

    def standing(self, survey: Survey, wanted: Bools, method: Method, hot_before: frozenset[str]) -> dict[int, str]:
        """The ids of those that are ``wanted`` (N,) and whose verdicts stand, by their place in the survey."""
        if (
            method is not self._method or method.rule.history
        ):  # recent values may be read where they could not be before
            return {}
        found = {}
        for place in np.flatnonzero(wanted & survey.sound).tolist():
            host = f"{int(survey.hosts[place]):016x}"
            last = self._last.get(host)
            if last is not None and last.was_hot == (host in hot_before) and last.record == survey.taken.records[place]:
                found[place] = host
        return found

    def of(self, standing: Collection[str], now: float) -> tuple[list[Host], dict[str, Verdict]]:
        """Those hosts and their verdicts as they are at ``now``."""
        known = [(host, self._last[host]) for host in standing]
        hosts = [_older(last.host, now - last.at) for _, last in known]
        return hosts, {host: aged(last.verdict, now - last.at) for host, last in known}

    def take(
        self,
        snapshot: Snapshot,
        picture: Picture,
        method: Method,
        hot_before: frozenset[str],
        heat: Heat,
        stood: Collection[str],
    ) -> None:
        """Remember what was judged; those that ``stood`` are remembered as they are."""
        self._method = method
        records = {
            f"{block.host_id:016x}": block.data
            for block in snapshot.blocks
            if block.state == CURRENT and block.resource_set == HOST_SET
        }
        kept = {host: self._last[host] for host in stood}
        self._last = kept | {
            host.id: _Last(records[host.id], host.id in hot_before, host, heat.verdicts[host.id], snapshot.now)
            for host in picture.hosts
            if host.id in records
        }


class _Older(Mapping[str, Reading]):
    """The same readings, so many seconds later."""

    def __init__(self, readings: Mapping[str, Reading], seconds: float) -> None:
        self._readings, self._seconds = readings, seconds

    def __getitem__(self, metric: str) -> Reading:
        reading = self._readings[metric]
        age = reading.age_seconds
        return reading if age is None else reading._replace(age_seconds=age + self._seconds)

    def __iter__(self) -> Iterator[str]:
        return iter(self._readings)

    def __len__(self) -> int:
        return len(self._readings)


def _older(host: Host, seconds: float) -> Host:
    age = None if host.age_seconds is None else host.age_seconds + seconds
    return host._replace(age_seconds=age, readings=_Older(host.readings, seconds))
