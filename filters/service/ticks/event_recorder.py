"""Event recorder of the service: outcomes of hosts, moves, conflicts, blindness.

An archive keeps them.

Each change is recorded once, however many services see it (``acquisition.link.happenings``). Costs nothing while
nothing changes; changes that cannot be recorded now are recorded with the next tick.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from acquisition import log
from acquisition.errors import ShardpulseError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster
from acquisition.link.happenings import CONFLICT, CONFLICT_OVER, VM_ONCE, VM_TWICE, Happening, Turn
from acquisition.link.layouts import read_layout
from acquisition.link.resp import raise_for
from acquisition.terminal import printable
from acquisition.wire import keys
from filters.decisions.conflicts import Claims, by_claimant
from filters.decisions.deciding import Decided
from filters.decisions.plan import Move
from filters.decisions.verdict import ABSTAINED, HOT, SATURATED, SUSPECT, Verdict

LOG = log.category("serve.decisions")
_MOVE, _CONFLICT, _REMARK, _BLIND = "move:", "conflict:", "vm:", "blind"
#: Events for the beginning and the end of an outcome of a host.
_EDGES = {HOT: ("hot", "cool"), SUSPECT: ("suspect", "suspect_over"), SATURATED: ("saturated", "saturated_over")}
_OF_A_HOST = re.compile("(?:hot|suspect|saturated):([0-9a-f]{16})")
_MOST_REMARKS = 20  #: a host may report anything about any number of VMs
_LONGEST_NAME = 100
_NO_HOST = 0  #: events about several hosts are recorded in its partition
_States = dict[str, tuple[int, str]]  #: name -> host, state


class EventRecorder:
    """Records changes of decisions; used by one thread."""

    def __init__(self) -> None:
        self._tags: tuple[str, ...] = ()
        self._recorded: _States | None = None  #: None: not read yet
        self._blind: tuple[float, str] | None = None  #: time and reason

    def see_nothing(self, now: float, reason: str) -> None:
        """Nothing can be read; recorded when it is over. ``now`` in seconds since 1970."""
        self._blind = self._blind or (now, reason)

    def record(self, cluster: Cluster, decided: Decided, now: float) -> int:
        """Record changes; returns their number."""
        try:
            if self._recorded is None:
                self._recorded = self._read(cluster)
            news = [*self._outcomes(decided, now), *self._moves(decided, now)]
            news += [*self._conflicts(decided, now), *self._remarks(decided, now), *self._sight(decided, now)]
            if LOG.informs:
                for _, one in news:
                    LOG.info(one.kind or "over", state=one.name, **one.details)
            return self._send(cluster, news) if news else 0
        except ShardpulseError:
            self._recorded = None
            return 0

    def _read(self, cluster: Cluster) -> _States:
        found: _States = {}
        self._tags = keys.tags(read_layout(cluster).partitions)
        for tag, states in happenings.read_told(cluster, self._tags).items():
            partition = self._tags.index(tag)
            for name, state in states.items():
                if name == _BLIND or (name.startswith((_MOVE, _CONFLICT, _REMARK)) and name.isascii()):
                    found[name] = partition, state
                elif own := _OF_A_HOST.fullmatch(name):  # anything else is a foreign field and is ignored
                    found[name] = int(own[1], 16), state
        return found

    def _send(self, cluster: Cluster, news: list[tuple[int, Happening]]) -> int:
        assert self._recorded is not None
        commands = []
        for host, one in news:
            commands += happenings.commands(self._tags[keys.partition_of(host, len(self._tags))], [one])
        for reply in cluster.gather(commands):
            raise_for(reply)
        for host, one in news:
            if one.turn is Turn.END:
                self._recorded.pop(one.name, None)
            else:
                self._recorded[one.name] = host, one.state
        return len(news)

    def _known(self, start: str) -> dict[str, tuple[int, str]]:
        assert self._recorded is not None
        return {name: state for name, state in self._recorded.items() if name.startswith(start)}

    def _outcomes(self, decided: Decided, now: float) -> Iterator[tuple[int, Happening]]:
        found = {HOT: set(decided.heat.hot), SUSPECT: set[str](), SATURATED: set[str]()}
        for host, verdict in decided.heat.verdicts.items():
            if verdict.outcome is SUSPECT or verdict.outcome is SATURATED:
                found[verdict.outcome].add(host)
        for outcome, kinds in _EDGES.items():
            yield from self._edges(f"{outcome}:", kinds, found[outcome], decided, now)

    def _edges(
        self, prefix: str, kinds: tuple[str, str], now_so: Collection[str], decided: Decided, now: float
    ) -> Iterator[tuple[int, Happening]]:
        """Hosts with a new outcome, and hosts that no longer have it, with their current one."""
        known, verdicts = self._known(prefix), decided.heat.verdicts
        for host in now_so:
            if prefix + host not in known and verdicts[host].outcome is not ABSTAINED:
                details = {"rule": decided.method.rule.name, **_explained(verdicts[host])}
                yield int(host, 16), Happening(prefix + host, _stamp(now), Turn.BEGIN, now, kinds[0], host, details)
        for name, (number, since) in known.items():
            host = name.removeprefix(prefix)
            if host not in now_so and host in verdicts:  # a host that is not visible may still have it
                details = {"since": _seconds(since), **_explained(verdicts[host])}
                yield number, Happening(name, "", Turn.END, now, kinds[1], host, details)

    def _moves(self, decided: Decided, now: float) -> Iterator[tuple[int, Happening]]:
        if decided.plan is None:
            return
        known = self._known(_MOVE)
        proposed = {_MOVE + move.vm.id: move for move in decided.plan.moves}
        for name, move in proposed.items():
            number, details = int(move.source.id, 16), _of_move(move)
            before = known.get(name)
            if before is not None and before != (number, move.destination.id):
                yield before[0], Happening(name, "", Turn.END, now)
            if before != (number, move.destination.id):
                target, source = move.destination.id, move.source.id
                yield number, Happening(name, target, Turn.CHANGE, now, "move_proposed", source, details)
        for name, (number, _) in known.items():
            if name not in proposed:
                yield number, Happening(name, "", Turn.END, now)

    def _conflicts(self, decided: Decided, now: float) -> Iterator[tuple[int, Happening]]:
        """Hosts that claim VMs of others: recorded once a minute while it lasts, and over after two without it."""
        known, found = self._known(_CONFLICT), by_claimant(decided.picture)
        minute = int(now // 60.0)
        for host, each in found.items():
            name = _CONFLICT + host
            if known.get(name, (0, ""))[1] != str(minute):
                yield _NO_HOST, Happening(name, str(minute), Turn.CHANGE, now, CONFLICT, host, _of_claims(each))
        for name, (_, last) in known.items():
            host = name.removeprefix(_CONFLICT)
            recent = {str(minute - ago) for ago in range(-1, 3)}
            if host not in found and last not in recent:
                yield _NO_HOST, Happening(name, "", Turn.END, now, CONFLICT_OVER, host)

    def _remarks(self, decided: Decided, now: float) -> Iterator[tuple[int, Happening]]:
        """Remarks about VMs: recorded once a minute while they last."""
        known, minute = self._known(_REMARK), int(now // 60.0)
        found = {f"{_REMARK}{each.kind}:{each.vm}": each for each in decided.picture.remarks[:_MOST_REMARKS]}
        for name, each in found.items():
            if known.get(name, (0, ""))[1] != str(minute):
                details = {"vm": printable(each.vm), "reason": printable(each.text)}
                yield _NO_HOST, Happening(name, str(minute), Turn.CHANGE, now, each.kind, "", details)
        for name in known.keys() - found.keys():
            twice, vm = f"{_REMARK}{VM_TWICE}:", {"vm": name.rpartition(f"{VM_TWICE}:")[2]}
            over = (VM_ONCE, "", vm) if name.startswith(twice) else ()
            yield _NO_HOST, Happening(name, "", Turn.END, now, *over)

    def _sight(self, decided: Decided, now: float) -> Iterator[tuple[int, Happening]]:
        assert self._recorded is not None
        if decided.picture.blind:
            since, reason = self._blind = self._blind or (now, decided.picture.blind)
            if _BLIND not in self._recorded:
                yield _NO_HOST, _blind(since, reason)
        elif self._blind is not None or _BLIND in self._recorded:
            if _BLIND not in self._recorded and self._blind is not None:  # it could not be recorded while it lasted
                yield _NO_HOST, _blind(*self._blind)
            self._blind = None
            yield _NO_HOST, Happening(_BLIND, "", Turn.END, now, "sight")


def _blind(since: float, reason: str) -> Happening:
    return Happening(_BLIND, _stamp(since), Turn.REMEMBER, since, "blind", "", {"since": since, "reason": reason})


def _explained(verdict: Verdict) -> Mapping[str, object]:
    return {"reason": verdict.reason, "figures": {figure.name: figure.value for figure in verdict.figures}}


def _of_move(move: Move) -> Mapping[str, object]:
    return {
        "vm": move.vm.id, "name": move.vm.name, "destination": move.destination.id,
        "why_host": move.why_host.reason, "why_destination": move.why_destination,
    }  # fmt: skip


def _of_claims(each: Claims) -> Mapping[str, object]:
    several, vm, host = each.vms > 1, printable(each.vm[:_LONGEST_NAME]), printable(each.host_name[:_LONGEST_NAME])
    reason = (
        f"reports {each.vms} VM{'s' * several} that run{'' if several else 's'} elsewhere, such as {vm} of {host}, for "
        "more than a minute"
    )
    return {"vms": each.vms, "vm": vm, "host": each.host, "reason": reason}


def _stamp(seconds: float) -> str:
    return str(round(seconds * 1000))


def _seconds(stamp: str) -> float | None:
    return int(stamp) / 1000.0 if re.fullmatch("[0-9]{1,15}", stamp) else None
