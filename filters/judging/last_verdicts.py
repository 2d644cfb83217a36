"""The verdicts of the last hot list, for hosts of which nothing has come since: they stand, and are older.

A verdict follows from a host's own figures, whether the host was hot before, and the rule. A scheduler that asks
several times within a tick finds most hosts with the record of before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.block import Block
from acquisition.snapshot.states import CURRENT
from filters.decisions.heat import Heat
from filters.decisions.method import Method
from filters.decisions.verdict import Verdict, aged


class _Last(NamedTuple):
    record: bytes
    was_hot: bool
    verdict: Verdict
    at: float  #: by the reader's clock


class LastVerdicts:
    """What the hot lists of one reader by one method have said; whoever asks again and again keeps it."""

    def __init__(self) -> None:
        self._method: Method | None = None
        self._last: dict[str, _Last] = {}

    def still(self, snapshot: Snapshot, method: Method, hot_before: frozenset[str]) -> dict[str, Verdict]:
        """Those that stand in this snapshot, by host id."""
        if (
            method is not self._method or method.rule.history
        ):  # recent values may be read where they could not be before
            return {}
        found = {}
        for host, block in _own(snapshot).items():
            last = self._last.get(host)
            if last is not None and last.record == block.data and last.was_hot == (host in hot_before):
                found[host] = aged(last.verdict, snapshot.now - last.at)
        return found

    def take(
        self, snapshot: Snapshot, method: Method, hot_before: frozenset[str], heat: Heat, stood: Mapping[str, Verdict]
    ) -> None:
        """Remember what was judged; those that ``stood`` are remembered as they are."""
        self._method = method
        self._last = {
            host: self._last[host]
            if host in stood
            else _Last(block.data, host in hot_before, heat.verdicts[host], snapshot.now)
            for host, block in _own(snapshot).items()
        }


def _own(snapshot: Snapshot) -> dict[str, Block]:
    """The blocks of hosts' own figures that are current, by host id."""
    return {
        f"{block.host_id:016x}": block
        for block in snapshot.blocks
        if block.state == CURRENT and block.resource_set == HOST_SET
    }
