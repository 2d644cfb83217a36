"""Sampled guest: hand-made files of one guest, read by the VM source.

It is read once a second.
"""

from __future__ import annotations

from pathlib import Path

from probes.checks import rate
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources.procfs_vms import VmSource
from tests.support.guest_proc import GuestProc

GUEST = ["/usr/bin/qemu-system-x86_64", "-name", "guest=web", "-uuid", "1-1", "-smp", "2,maxcpus=8", "-m", "4096"]
NAMES = ["qemu-system-x86", "CPU 0/KVM", "CPU 1/KVM", "worker"]
METRICS = [metric.name for metric in VMS.metrics]
S = 10**9  #: nanoseconds


class SampledGuest:
    """``had`` is what each thread has run and waited, by its number after the pid."""

    def __init__(self, path: Path) -> None:
        self.proc = GuestProc(path)
        self.facts = HostFacts("host-a", str(self.proc.path), str(path / "sys"))
        self.source = VmSource(VMS, self.facts, Discovery(self.facts, Selection(), 5.0))
        self.seconds = 10.0
        self.check = rate.build(VMS, {})
        self.had: dict[int, tuple[int, int]] = {}
        self.cgroups = ""

    def guest(self, words: list[str] | None = None, names: list[str] | None = None) -> None:
        self.proc.add(4711, GUEST if words is None else words)
        self.proc.has_threads(4711, NAMES if names is None else names)

    def had_more(self, thread: int, run: float, delay: float) -> None:
        before = self.had.get(thread, (S, S))
        self.had[thread] = (before[0] + round(run * S), before[1] + round(delay * S))
        self.proc.threads_had(4711, {thread: self.had[thread]}, self.cgroups)

    def reading(self) -> Reading:
        self.seconds += 1.0
        found = self.source.sample(1000.0 + self.seconds, self.seconds)
        assert found is not None
        found = found._replace(cores=16)
        self.labels = found.entities[0].labels
        self.check(found)
        return found

    def values(self) -> dict[str, tuple[float, int]]:
        found = self.reading()
        return {name: (round(found.values[place], 6), found.codes[place]) for place, name in enumerate(METRICS)}

    def vcpus(self) -> list[tuple[float, int]]:
        values = self.values()
        return [values[f"vcpu_{name}_ratio"] for name in ("run", "delay", "throttled", "suffering")]

    def codes(self) -> list[int]:
        return [code for _, code in self.vcpus()]
