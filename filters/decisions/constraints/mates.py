"""Mates: VMs that belong together or apart, by label and value (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from filters.decisions.constraints import labels
from filters.decisions.picture import Host, Vm

#: Labels of VMs that relate to other VMs with the same value.
SHARED = tuple(prefix + name for prefix in ("", labels.PREFER) for name in (labels.AFFINITY, labels.ANTI_AFFINITY))

_Places = Mapping[tuple[str, str, str], tuple[Vm, ...]]  #: by label, value and host id


class Mates:
    """VMs by value of such a label and host; made on first use, since most VMs have none."""

    def __init__(self, hosts: Mapping[str, Host], places: _Places | None = None) -> None:
        self._hosts, self._known = hosts, places

    @cached_property
    def _places(self) -> _Places:
        if self._known is not None:
            return self._known
        found: dict[tuple[str, str, str], tuple[Vm, ...]] = {}
        for host in self._hosts.values():
            for vm in host.vms:
                for key in _keys(vm):
                    found[*key, host.id] = (*found.get((*key, host.id), ()), vm)
        return found

    @cached_property
    def _hosts_of(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for label, value, host in self._places:
            found[label, value] = (*found.get((label, value), ()), host)
        return found

    def on(self, host_id: str, vm: Vm, label: str) -> Vm | None:
        """Another VM on this host with the same value of a label as ``vm``."""
        there = self._places.get((label, vm.labels[label], host_id), ())
        return next((each for each in there if each.id != vm.id), None)

    def hosts_of(self, vm: Vm, label: str) -> tuple[str, ...]:
        """The hosts of VMs with the same value of a label."""
        return self._hosts_of.get((label, vm.labels[label]), ())

    def moved(self, vm: Vm, source: str, destination: str) -> Mates:
        """The mates after a move of ``vm``."""
        if not _keys(vm):
            return self
        places = dict(self._places)
        for key in _keys(vm):
            stay = tuple(each for each in places.pop((*key, source), ()) if each.id != vm.id)
            if stay:
                places[*key, source] = stay
            places[*key, destination] = (*places.get((*key, destination), ()), vm)
        return Mates(self._hosts, places)


def _keys(vm: Vm) -> Sequence[tuple[str, str]]:
    """Labels and values that relate to other VMs."""
    return [(name, vm.labels[name]) for name in SHARED if vm.labels.get(name)] if vm.labels else ()
