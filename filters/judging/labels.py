"""The labels of the hosts and entities of a snapshot: what probes send, and what [decisions] says, which wins."""

from __future__ import annotations

from collections.abc import Mapping

from acquisition.config.decisions import Decisions
from acquisition.snapshot import Snapshot
from acquisition.snapshot.vm_evidence import VM
from acquisition.wire.table import Entity
from filters.judging.label_table import LabelTable
from filters.judging.observe import HOST_SET

_HOST, _PROCESS = "host", "process"


class Labels:
    """As decisions see them (``filters.judging.observe``); any thread may ask."""

    def __init__(self, settings: Decisions) -> None:
        self._hosts = LabelTable(settings.hosts)
        self._vms = LabelTable(settings.vms)
        self._vm_kinds = (VM, _PROCESS) if settings.entities == "processes" else (VM,)

    def of_hosts(self, snapshot: Snapshot) -> dict[int, Mapping[str, str]]:
        """By host id, also of hosts that are late, or send nothing of what was read."""
        sent: dict[int, tuple[str, Mapping[str, str]]] = {}
        for block in (*snapshot.unread, *snapshot.blocks):
            own = block.entities[0].labels if block.resource_set == HOST_SET and block.raw_ids else {}
            if own or block.host_id not in sent:
                sent[block.host_id] = (block.host, own)
        return {number: self._hosts.of(own, name, f"{number:016x}") for number, (name, own) in sent.items()}

    def of_entity(self, entity: Entity) -> Mapping[str, str]:
        """Of a host's own row, a VM or a process."""
        if entity.kind == _HOST:
            return self._hosts.of(entity.labels, entity.name)
        return (
            self._vms.of(entity.labels, entity.name, entity.stable) if entity.kind in self._vm_kinds else entity.labels
        )
