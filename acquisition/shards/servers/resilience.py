"""Resilience of a cluster to the loss of one machine (pure).

A replica takes over when more than half of the masters elect it. So nothing is lost with one machine if each
master has a replica in sync on another one, and no machine has so many masters that the others are not a majority. A
machine is the host part of an address; all of loopback is one. A cluster without replicas is as requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from acquisition.link.trust import admission
from acquisition.shards.servers.status import REPLICA, ShardStatus

_QUORUM = 3  #: number of masters, and machines, of which one may die
_HERE = "restart what has died, e.g. with `shardpulse shards up`"
_ELSEWHERE = "add one on another machine with `shardpulse shards replicas --addresses …` or site.yml"
_ALONE = "has no replica in sync: if it dies, its hosts are unknown until it is back and refilled by probes; {remedy}"
_BESIDE = (
    "is on the machine of its master {master}: both would fail together; move it with `shardpulse shards "
    "replicas --addresses …` or site.yml"
)
_CROWDED = "has {held} of {total} masters: if it dies, the others have no majority, and no replica takes over; {remedy}"
_GIVES_BACK = "move one with `shardpulse shards handover {master} --to {replica} --addresses …` or site.yml"
_CANNOT = "no handover helps; add a machine or a master (grow.yml)"


class Risk(NamedTuple):
    """Risk from one failure; ``grave``: a single shard or machine suffices, and a command removes the risk."""

    grave: bool
    about: str
    text: str

    def line(self) -> str:
        """Readable line below a list of shards."""
        return f"{'AT RISK' if self.grave else 'note'}  {self.about} {self.text}"


def risks(rows: Sequence[ShardStatus]) -> list[Risk]:
    """Masters without a replica in sync, replicas on the machine of their masters, and a machine with too many masters;
    empty for a cluster without replicas."""
    if not any(row.role == REPLICA for row in rows):
        return []
    several = len({machine_of(row.address) for row in rows}) > 1
    return [*_alone(rows, several), *(_beside(rows) if several else ()), *_crowded(rows)]


def machine_of(address: str) -> str:
    """The host part of ``HOST:PORT``; one name for all of loopback."""
    host = address.rpartition(":")[0].strip("[]")
    return "localhost" if host == "localhost" or admission.is_loopback(host) else host


def _alone(rows: Sequence[ShardStatus], several: bool) -> list[Risk]:
    followed = {row.replica_of for row in rows if _could_take_over(row)}
    text = _ALONE.format(remedy=_ELSEWHERE if several else _HERE)
    return [Risk(True, f"shard {row.address}", text) for row in _masters(rows) if row.address not in followed]


def _beside(rows: Sequence[ShardStatus]) -> list[Risk]:
    return [
        Risk(True, f"shard {row.address}", _BESIDE.format(master=row.replica_of))
        for row in rows
        if row.answering and row.replica_of and machine_of(row.address) == machine_of(row.replica_of)
    ]


def _crowded(rows: Sequence[ShardStatus]) -> list[Risk]:
    masters = _masters(rows)
    held = Counter({machine_of(row.address): 0 for row in rows if row.answering})
    held.update(machine_of(row.address) for row in masters)
    if len(masters) < _QUORUM or len(held) < _QUORUM:
        return []
    return [
        Risk(False, f"machine {machine}", _CROWDED.format(held=count, total=len(masters), remedy=_remedy(rows, held)))
        for machine, count in held.items()
        if 2 * (len(masters) - count) <= len(masters)
    ]


def _remedy(rows: Sequence[ShardStatus], held: Counter[str]) -> str:
    """Handover that spreads masters more evenly: a master of the machine with most, and its replica."""
    crowded = held.most_common(1)[0][0]
    heirs = [
        (held[machine_of(row.address)], row.address, row.replica_of)
        for row in rows
        if _could_take_over(row) and machine_of(row.replica_of) == crowded
        and held[machine_of(row.address)] + 1 < held[crowded]
    ]  # fmt: skip
    return _GIVES_BACK.format(master=min(heirs)[2], replica=min(heirs)[1]) if heirs else _CANNOT


def _masters(rows: Sequence[ShardStatus]) -> list[ShardStatus]:
    return [row for row in rows if row.answering and row.role != REPLICA and row.slots]


def _could_take_over(row: ShardStatus) -> bool:
    return row.answering and row.role == REPLICA and row.in_sync
