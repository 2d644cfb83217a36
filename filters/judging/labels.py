"""Labels of hosts, VMs and processes: sources, precedence, selectors.

Probes send labels, and [decisions] adds to them.

A selector is ``NAME=VALUE`` (with wildcards ``*`` and ``?`` in the value) or ``NAME``, which matches any value. Of
selectors with the same name any must match, of different names all: ``rack=r1``, ``rack=r2``, ``ssd`` matches hosts in
either rack that have the label ``ssd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import NamedTuple

from acquisition.config.decisions import Decisions
from acquisition.config.decisions import Labels as Configured
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.vms.evidence import VM
from acquisition.wire.table import Entity

_HOST, _PROCESS = "host", "process"


class Labels:
    """Labels as used in decisions (``filters.judging.observe``); may be read by any thread."""

    def __init__(self, settings: Decisions) -> None:
        self.configure(settings)

    def configure(self, settings: Decisions) -> None:
        """Use the labels of these settings from the next call on."""
        self._hosts = LabelTable(settings.hosts)
        self._vms = LabelTable(settings.vms)
        self._vm_kinds = (VM, _PROCESS) if settings.entities == "processes" else (VM,)

    def of_hosts(self, snapshot: Snapshot) -> dict[int, Mapping[str, str]]:
        """Labels by host id, including hosts that are late or send nothing of what was read."""
        sent: dict[int, tuple[str, Mapping[str, str]]] = {}
        for block in (*snapshot.unread, *snapshot.blocks):
            own = block.entities[0].labels if block.resource_set == HOST_SET and block.raw_ids else {}
            if own or block.host_id not in sent:
                sent[block.host_id] = (block.host, own)
        return {number: self._hosts.of(own, name, f"{number:016x}") for number, (name, own) in sent.items()}

    def of_entity(self, entity: Entity) -> Mapping[str, str]:
        """Labels of a host's own row, a VM or a process."""
        if entity.kind == _HOST:
            return self._hosts.of(entity.labels, entity.name)
        return (
            self._vms.of(entity.labels, entity.name, entity.stable) if entity.kind in self._vm_kinds else entity.labels
        )


class LabelTable:
    """Labels by pattern of names or ids; later patterns override earlier ones."""

    def __init__(self, patterns: Mapping[str, Configured]) -> None:
        self._rows = [(re.compile(translate(pattern)), _texts(labels)) for pattern, labels in patterns.items()]

    def of(self, sent: Mapping[str, str], *names: str) -> Mapping[str, str]:
        """The labels of an entity with these names that sends ``sent``."""
        if not self._rows:
            return sent
        found = dict(sent)
        for pattern, labels in self._rows:
            if any(pattern.match(name) for name in names):
                found.update(labels)
        return found


def _texts(labels: Configured) -> dict[str, str]:
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in labels.items()}


class Selector(NamedTuple):
    """Selector of labels; ``value`` None: any value matches."""

    name: str
    value: re.Pattern[str] | None

    @classmethod
    def of(cls, text: str) -> Selector:
        """Parse a selector. Raises ValueError if it has no name."""
        name, equals, value = text.partition("=")
        if not name.strip():
            raise ValueError(f"invalid selector {text!r}: expected NAME=VALUE or NAME")
        return cls(name, re.compile(translate(value)) if equals else None)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels match."""
        found = labels.get(self.name)
        return found is not None and (self.value is None or self.value.match(found) is not None)


class LabelSelection(NamedTuple):
    """Selectors by name; without any, everything matches."""

    by_name: Mapping[str, tuple[Selector, ...]] = {}

    @classmethod
    def of(cls, texts: Iterable[str]) -> LabelSelection:
        """The selection of some selectors. Raises ValueError for an invalid one."""
        found: dict[str, tuple[Selector, ...]] = {}
        for selector in map(Selector.of, texts):
            found[selector.name] = (*found.get(selector.name, ()), selector)
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels match the selection."""
        return all(any(one.takes(labels) for one in several) for several in self.by_name.values())
