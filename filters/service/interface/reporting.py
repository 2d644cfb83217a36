"""Migration reports of schedulers, checked against the picture.

Hosts and the VM are given by name or id.

Impossible reports are refused, as they would block a VM and its hosts for minutes. For a migration in the log, the log
knows more than the picture: a report that continues it is accepted, wherever the VM was last seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from acquisition.config.settings import Settings
from acquisition.snapshot import Snapshot
from acquisition.snapshot.vms.evidence import VM
from filters.decisions.migrations import STARTED, Migrations, Report
from filters.judging.whereabouts import Whereabouts, whereabouts
from filters.service.http.problem import Problem, not_found, unavailable

_EXAMPLES = 3
_TEXT = r"^[^\x00-\x1f\x7f]+$"
_HOST_ID = re.compile(r"\b[0-9a-f]{16}\b")
Name = Annotated[str, Meta(min_length=1, max_length=253, pattern=_TEXT)]


class MigrationReport(Struct, frozen=True, forbid_unknown_fields=True):
    """Migration report as sent by a scheduler. ``vm`` is the VM's stable id (uuid), or its name if no other has it;
    hosts are named by name or hexadecimal id. A VM that is not there is answered with 404; with 409 what its place
    contradicts: it starts from a host that reports it, and ends between two hosts of which one does."""

    vm: Name
    source: Name
    destination: Name
    phase: Literal["started", "finished", "failed"]
    reason: Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


def movable(settings: Settings) -> tuple[str, ...]:
    """Kinds of entities that migrate; empty if the picture of the service excludes them (``resource_sets``)."""
    processes = settings.decisions.entities == "processes"
    shown = settings.serve.resource_sets
    seen = not shown or "vms" in shown or (processes and "processes" in shown)
    return () if not seen else (VM, "process") if processes else (VM,)


def report_of(
    said: MigrationReport, snapshot: Snapshot, kinds: Collection[str], known: Callable[[], Migrations]
) -> Report:
    """The report, with ids. ``kinds``: those of entities that may migrate; if empty, the VM is accepted as given.
    ``known`` reads the log, used if the picture alone would refuse the report.

    Raises Problem: 404 for an unknown host or VM, 409 if the VM is elsewhere or several have its name,
    503 if the picture does not include all hosts.
    """
    names = host_names(snapshot)
    source, destination = _host_id(names, said.source), _host_id(names, said.destination)
    report = Report(said.vm, source, destination, said.phase, said.reason)
    if not kinds:
        return report
    found = whereabouts(snapshot, said.vm, kinds)
    if len(found) > 1:
        ids = sorted(each.entity.stable for each in found)
        some = ", ".join((*ids[:_EXAMPLES], *("…" for _ in ids[_EXAMPLES : _EXAMPLES + 1])))
        raise contradiction(f"{len(found)} VMs are named {said.vm!r}: give the id ({some})")
    if found:
        report = report._replace(vm=found[0].entity.stable)
        problem = _misplaced(report, found[0], names)
    else:
        problem = _missing(said.vm, snapshot)
    if problem is not None and not _goes_on(report, known()):
        raise problem
    return report


def host_names(snapshot: Snapshot) -> dict[str, str]:
    """Names of all hosts by id."""
    return {f"{block.host_id:016x}": block.host for block in (*snapshot.unread, *snapshot.blocks)}


def with_names(text: str, names: Mapping[str, str]) -> str:
    """A text from the log with ids of hosts replaced by names."""
    return _HOST_ID.sub(lambda found: names.get(found[0], found[0]), text)


def _host_id(names: Mapping[str, str], word: str) -> str:
    if word in names:
        return word
    for number, name in names.items():
        if name == word:
            return number
    raise not_found(f"unknown host {word!r}; GET /v1/hosts lists all hosts", "host")


def _missing(vm: str, snapshot: Snapshot) -> Problem:
    if snapshot.errors:
        return unavailable(f"cannot determine whether VM {vm!r} exists: {snapshot.errors[0]}", None)
    return not_found(f"unknown VM {vm!r}, by id or name; GET /v1/snapshot?set=vms lists all VMs", "vm")


def _misplaced(report: Report, place: Whereabouts, names: Mapping[str, str]) -> Problem | None:
    possible = {report.source} if report.phase == STARTED else {report.source, report.destination}
    if possible & place.hosts:
        return None
    there = " and ".join(sorted(names[host] for host in place.hosts))
    said = " or ".join(names[host] for host in dict.fromkeys((report.source, report.destination)) if host in possible)
    return contradiction(f"{place.entity.name} is on {there}, not on {said}")


def _goes_on(report: Report, known: Migrations) -> bool:
    newest = known.of(report.vm)
    return newest is not None and newest[:3] == report[:3]


def contradiction(detail: str) -> Problem:
    """The problem (409) of a report that contradicts the picture."""
    return Problem(409, "contradiction", f"{detail}; GET /v1/migrations lists known migrations")
