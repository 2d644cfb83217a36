"""Hosts of a list that are certainly hot: each is made, and judged with its reasons, when somebody looks at it.

Outcome and excess of all of them are known by arrays (``Rule.certain``). A scheduler looks at the few that it acts on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from acquisition.config.decisions import Decisions
from acquisition.snapshot.inputs import BlockTables
from acquisition.snapshot.later_blocks import LaterBlocks
from filters.decisions.heat import Brief, Heat
from filters.decisions.method import Method
from filters.decisions.picture import Host
from filters.decisions.verdict import HOT, Verdict
from filters.judging.observe import observe
from filters.judging.sources import TickInputs


class LaterHosts:
    """Hosts by their ids, those that ``blocks`` can make; any thread may look."""

    def __init__(self, blocks: LaterBlocks, settings: Decisions, method: Method, hot_before: frozenset[str]) -> None:
        self._blocks = blocks
        self._settings = settings
        self._method = method
        self._hot_before = hot_before
        self._hosts: dict[str, Host] = {}
        self._verdicts: dict[str, Verdict] = {}

    def hosts(self, wanted: Sequence[str]) -> list[Host]:
        """Those with these ids."""
        if unmade := [each for each in wanted if each not in self._hosts]:
            self._make(unmade)
        return [self._hosts[each] for each in wanted]

    def verdict(self, host: str) -> Verdict:
        """What the rule says of one."""
        if host not in self._verdicts:
            rule, parameters = self._method.rule, self._method.parameters
            self._verdicts[host] = rule.judge(self.hosts([host])[0], parameters, host in self._hot_before)
        return self._verdicts[host]

    def name(self, host: str) -> str:
        """The name of one, which is known before it is made."""
        return self._blocks.name(int(host, 16))

    def _make(self, hosts: Sequence[str]) -> None:
        snapshot = self._blocks.snapshot([int(host, 16) for host in hosts])
        inputs = TickInputs(BlockTables(snapshot.blocks))
        self._hosts.update({host.id: host for host in observe(snapshot, self._settings, inputs).hosts})


class _Ordered:
    """The ids of all hosts by name: those that are ``made``, and ``later`` ones."""

    def __init__(self, made: Sequence[Host], later: LaterHosts, ids: Sequence[str]) -> None:
        self.made = {host.id: host for host in made}
        self.later = later
        self.later_ids = ids
        self._ids: list[str] | None = None

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.made) + len(self.later_ids)

    @property
    def ids(self) -> list[str]:
        """All ids."""
        if self._ids is None:
            named = [(host.name, host.id) for host in self.made.values()]
            named += [(self.later.name(host), host) for host in self.later_ids]
            self._ids = [host for _, host in sorted(named)]
        return self._ids


class _Hosts(Sequence[Host]):
    """All hosts in their order, made when the first is looked at."""

    def __init__(self, ordered: _Ordered) -> None:
        self._ordered = ordered
        self._all: list[Host] | None = None

    def all(self) -> list[Host]:
        """All of them."""
        if self._all is None:
            ordered = self._ordered
            known = ordered.made | {host.id: host for host in ordered.later.hosts(ordered.later_ids)}
            self._all = [known[host] for host in ordered.ids]
        return self._all

    @overload
    def __getitem__(self, at: int) -> Host: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Host]: ...
    def __getitem__(self, at: int | slice) -> Host | Sequence[Host]:
        return self.all()[at]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.all())

    def __len__(self) -> int:
        return self._ordered.count


class _Verdicts(Mapping[str, Verdict]):
    """All verdicts in the order of hosts, those of later ones made when they are looked at."""

    def __init__(self, ordered: _Ordered, made: Mapping[str, Verdict]) -> None:
        self._ordered = ordered
        self._made = made

    def __getitem__(self, host: str) -> Verdict:
        return self._made[host] if host in self._made else self._ordered.later.verdict(host)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ordered.ids)

    def __len__(self) -> int:
        return self._ordered.count


def joined(
    hosts: Sequence[Host], heat: Heat, excess: Mapping[str, float], later: LaterHosts
) -> tuple[Sequence[Host], Heat]:
    """All hosts, and what is said of them: the judged ``hosts`` with their ``heat``, and ``later`` ones that are hot by
    this ``excess``."""
    ordered = _Ordered(hosts, later, list(excess))
    briefs = {host: Brief(HOT, each) for host, each in excess.items()} | dict(heat.verdicts)
    return _Hosts(ordered), Heat(_Verdicts(ordered, heat.verdicts), heat.hot.union(excess), briefs)
