"""Probe loop: runs all modules of a host and sends their readings.

Single-threaded over poll(2): absolute deadlines of the modules, pipes of the tools, the socket of
the writer. No part waits for another, so a stuck source, tool or shard never
stops the tick.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Callable
from functools import cache
from typing import Protocol

from acquisition import log
from acquisition.model.identity import host_id
from acquisition.model.metric import HOST_SET
from probes.checks import build_pipeline
from probes.loop.account import Account
from probes.loop.agent_settings import AgentSettings, ModuleSettings
from probes.loop.module import Module, Sink, phase_for
from probes.metrics import RESOURCE_SETS, VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.schedule import Schedule, phase_of
from probes.sources import Request, create

LOG = log.category("probe")
_ACCOUNT_SECONDS = 5.0
_LONGEST_WAIT = 60.0
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class Outlet(Sink, Protocol):
    """A sink that sends by itself: the writer, or a dry run."""

    @property
    def waits_for(self) -> tuple[int, int, int]:
        """The descriptor to wait for (-1: nothing), poll events, and a number that grows with every new connection."""

    def service(self, now: float) -> float:
        """Send and receive without waiting; returns when to be called again."""

    def set_extra_status(self, values: dict[str, object]) -> None:
        """Set the fields of the status record beside the writer's own account."""


class Probe:
    """All modules of one host. ``report`` takes one line for the operator."""

    def __init__(self, settings: AgentSettings, outlet: Outlet, report: Callable[[str], None]) -> None:
        self.settings = settings
        self.modules: list[Module] = []
        self.outlet = outlet
        self._report = report
        self._reported: set[str] = set()
        self._facts = HostFacts(settings.host, scope=settings.scope)
        self._discovery: Discovery | None = None
        self._account = Account()
        self._account_due = 0.0
        self._waited: tuple[object, ...] = ()
        self._timetable: list[tuple[Schedule, list[Module]]] = []
        self._modules_due = 0.0  # the earliest deadline
        self._glancing: list[Module] = []
        self._glance_due = math.inf
        self._free_running: list[Module] = []
        self._poll = select.poll()
        self._outlet_due = 0.0
        self._build(settings)

    @property
    def machine(self) -> str:
        """Id of this machine since its boot, independent of its name (machine-id(5), random(4))."""
        return f"machine id {self._facts.machine_id or 'none'}, boot id {self._facts.boot_id}"

    def reload(self, settings: AgentSettings, outlet: Outlet) -> None:
        """Continue with other settings and, if the connection has changed, another outlet.

        Modules with unchanged settings keep their counters.
        """
        old, self.settings = self.settings, settings
        kept = []
        renamed = (old.host, old.scope) != (settings.host, settings.scope)
        if outlet is self.outlet and not renamed and old.checks == settings.checks:
            same = (old.selection, old.discovery_interval) == (settings.selection, settings.discovery_interval)
            kept = [module for module in self.modules if same or module.name == HOST_SET]
        for module in self.modules:
            if module not in kept:
                module.source.close()
        if renamed:
            self._facts = HostFacts(settings.host, scope=settings.scope)
        self.outlet = outlet
        self._reported.clear()
        self._build(settings, old, kept)

    def _build(
        self, settings: AgentSettings, old: AgentSettings | None = None, kept: list[Module] | None = None
    ) -> None:
        if not kept or all(module.name == HOST_SET for module in kept) or self._discovery is None:
            self._discovery = Discovery(self._facts, Selection.of(settings.selection), settings.discovery_interval)
        before = {module.resource_set: module for module in old.modules} if old else {}
        running = {module.name: module for module in kept or []}
        self.modules = []
        now = time.time(), time.monotonic()
        schedule = cache(lambda interval, phase: Schedule(interval, phase, *now))  # one for modules that tick together
        for wanted in settings.modules:
            module = running.pop(wanted.resource_set, None)
            if module is not None and before.get(wanted.resource_set) == wanted:
                self.modules.append(module)
                continue
            if module is not None:
                module.source.close()
            self.modules.append(self._module(wanted, self._discovery, schedule))
        for module in running.values():
            module.source.close()
        self._free_running = [module for module in self.modules if module.source.free_running]
        self._glancing = [module for module in self.modules if module.glances]
        ordered = sorted(self.modules, key=lambda module: module.name != VMS.name)  # the host's row sums up theirs
        self._timetable = [
            (each, [module for module in ordered if module.schedule is each])
            for each in dict.fromkeys([module.schedule for module in self.modules])
        ]
        self._modules_due = min([each.deadline for each, _ in self._timetable], default=math.inf)

    def _module(
        self, wanted: ModuleSettings, discovery: Discovery, schedule: Callable[[float, float], Schedule]
    ) -> Module:
        resource_set = RESOURCE_SETS[wanted.resource_set].select(wanted.metrics)
        source = create(
            wanted.source,
            Request(resource_set, wanted.interval, self._facts, discovery, self._report_once, wanted.options),
        )
        phase = phase_for(source, phase_of(host_id(self.settings.host), wanted.interval), wanted.interval)
        check = build_pipeline(resource_set, self.settings.checks)
        return Module(resource_set, source, check, schedule(wanted.interval, phase), self.settings.host, self.outlet)

    def _report_once(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            self._report(line)

    def step(self, also: int = -1, latest: float = math.inf) -> bool:
        """Wait for the next event and process it, at most until ``latest``. ``also`` is one more descriptor to wait
        for; returns whether that one is readable."""
        wake = min(self._outlet_due, latest, self._modules_due, self._glance_due)
        for module in self._free_running:
            wake = min(wake, module.source.wake_at())
        waits_for = self.outlet.waits_for
        ready = self._wait(wake if self.modules else min(wake, time.monotonic() + 1.0), also, waits_for)
        monotonic = now = time.monotonic()
        worked = False
        if self._free_running or monotonic >= self._modules_due:
            worked = self._run_modules(time.time(), monotonic, ready)
            now = time.monotonic()
        if monotonic >= self._glance_due:
            worked |= self._glance(monotonic)
            now = time.monotonic()
        if monotonic >= self._account_due:
            self._account_due = monotonic + _ACCOUNT_SECONDS
            self.outlet.set_extra_status(self._account.values(self.machine, self.modules, monotonic))
        if worked or monotonic >= self._outlet_due or waits_for[0] in ready:
            self._outlet_due = self.outlet.service(now)
        return also in ready

    def _run_modules(self, wall: float, monotonic: float, ready: dict[int, int]) -> bool:
        worked = False
        for module in self._free_running:
            source = module.source
            if source.wake_at() <= monotonic or any(number in ready for number in source.filenos()):
                module.service(wall, monotonic, ready)
                worked = True
        if self._modules_due > monotonic:
            return worked
        due = math.inf
        for schedule, modules in self._timetable:
            if schedule.deadline <= monotonic:
                tick = schedule.begin(wall, monotonic)
                if LOG.informs:
                    before = [(module.samples, module.invalid) for module in modules]
                for module in modules:  # each at its own time: an earlier one may have been delayed
                    module.run(tick, time.time(), time.monotonic())
                if LOG.informs:
                    new = [(m.samples - s, m.invalid - i) for m, (s, i) in zip(modules, before, strict=True)]
                    samples, invalid = (sum(counts) for counts in zip(*new, strict=True))
                    LOG.info(
                        "tick", number=tick, seconds=time.monotonic() - monotonic, samples=samples, invalid=invalid,
                        missed=schedule.missed,
                    )  # fmt: skip
            due = min(due, schedule.deadline)
        self._modules_due = due
        self._glance_due = min([module.schedule.middle for module in self._glancing], default=math.inf)
        return True

    def _glance(self, monotonic: float) -> bool:
        """Look for entities that have come or gone between two ticks; returns whether anything was read."""
        due = [module for module in self._glancing if module.schedule.take_middle(monotonic)]
        self._glance_due = min([module.schedule.middle for module in self._glancing], default=math.inf)
        return sum(module.glance(time.time(), monotonic) for module in due) > 0

    def _wait(self, wake: float, also: int, waits_for: tuple[int, int, int]) -> dict[int, int]:
        wanted: tuple[object, ...] = (also, waits_for)
        for module in self._free_running:
            wanted += tuple(module.source.filenos())
        if wanted != self._waited:
            self._poll = self._poll_of(also, *waits_for[:2])
            self._waited = wanted
        wait = min(max(0.0, wake - time.monotonic()), _LONGEST_WAIT)
        return dict(self._poll.poll(wait * 1000.0))

    def _poll_of(self, also: int, number: int, events: int) -> select.poll:
        pipes = [pipe for module in self._free_running for pipe in module.source.filenos()]
        poll = select.poll()
        for descriptor, wanted in [(also, select.POLLIN), (number, events), *[(pipe, select.POLLIN) for pipe in pipes]]:
            if descriptor >= 0:
                poll.register(descriptor, wanted)
        return poll

    def account(self) -> dict[str, object]:
        """The probe's own figures."""
        return self._account.values(self.machine, self.modules, time.monotonic())

    def close(self) -> None:
        """Stop all tools, close all files."""
        for module in self.modules:
            module.source.close()


def ring_path(host: str) -> str:
    """Default path of the outbox of a host's probe, on tmpfs: in the directory that
    systemd gives the unit (RuntimeDirectory of systemd.exec(5)), else a file per user and host."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if given:
        return f"{given}/{host_id(host):016x}.ring"
    return f"/dev/shm/shardpulse-{os.getuid()}-{host_id(host):016x}.ring"
