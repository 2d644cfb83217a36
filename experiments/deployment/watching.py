"""Watch on a playbook: duration of tasks, and remote calls per host."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.hosts.site import Site, changed

_CALLBACKS = Path(__file__).parent / "callbacks"
#: In place of ssh for Ansible: notes the first word that is an address, with brackets if needed by sftp.
_NOTING = """#!/bin/sh
for word; do
    case $word in
        *[!]0-9.[]*) ;;
        *.*.*.*) echo "$word" >> '{log}'; break ;;
    esac
done
exec {program} "$@"
"""
_PROGRAMS = {"ssh": "ANSIBLE_SSH_EXECUTABLE", "sftp": "ANSIBLE_SFTP_EXECUTABLE", "scp": "ANSIBLE_SCP_EXECUTABLE"}


@dataclass(frozen=True)
class Task:
    """A task of a playbook, on all hosts together: ``seconds`` until the next one began."""

    play: str
    role: str
    name: str
    seconds: float


@dataclass(frozen=True)
class Watched:
    """A playbook that has ended, in ``seconds`` by the clock; ``cpu_seconds`` are the controller's; ``calls`` by the
    host's name: ssh, scp and sftp connections with a command or a transfer."""

    done: subprocess.CompletedProcess[str]
    seconds: float
    cpu_seconds: float
    tasks: Sequence[Task]
    calls: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "exit_code": self.done.returncode, "seconds": round(self.seconds, 1),
            "controller_cpu_seconds": round(self.cpu_seconds, 1), "changed": changed(self.done),
            "calls": dict(self.calls), "plays": _rounded(shares(self.tasks, "play")),
            "roles": _rounded(shares(self.tasks, "role")), "tasks": len(self.tasks),
            "longest": [
                {"play": task.play, "role": task.role, "task": task.name, "seconds": round(task.seconds, 1)}
                for task in sorted(self.tasks, key=lambda task: -task.seconds)[:12]
            ],
        }  # fmt: skip


def watched(site: Site, book: str, *options: str, inventory: Any = None) -> Watched:
    """Run a playbook and watch it."""
    place = site.directory / "watching"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    times, log = place / "times", place / "calls"
    times.touch()
    log.touch()
    told = {"ANSIBLE_CALLBACK_PLUGINS": str(_CALLBACKS), "ANSIBLE_CALLBACKS_ENABLED": "task_times",
            "TASK_TIMES": str(times)}  # fmt: skip
    for name, variable in _PROGRAMS.items():
        told[variable] = str(_noting(place / name, shutil.which(name) or name, log))
    began, before = time.monotonic(), _used()
    done = site.play(book, *options, inventory=inventory, **told)
    seconds, used = time.monotonic() - began, _used() - before
    names = {host.address: name for name, host in site.hosts.items()}
    events = [json.loads(line) for line in times.read_text().splitlines()]
    return Watched(done, seconds, used, tasks_of(events), calls_of(log.read_text().splitlines(), names))


def tasks_of(events: Sequence[Mapping[str, Any]]) -> list[Task]:
    """Tasks of a playbook, from the beginnings of its tasks; the last event is its end."""
    return [
        Task(event["play"], event["role"], event["task"], following["at"] - event["at"])
        for event, following in pairwise(events)
    ]


def calls_of(words: Iterable[str], names: Mapping[str, str]) -> dict[str, int]:
    """Number of calls of each host, by its name; hosts without a call are included."""
    counted = Counter(word.strip("[]") for word in words)
    return {name: counted[address] for address, name in names.items()}


def shares(tasks: Iterable[Task], kind: str) -> dict[str, float]:
    """Seconds by ``play`` or by ``role``, the longest first; tasks of a play itself belong to the role ""."""
    seconds: dict[str, float] = defaultdict(float)
    for task in tasks:
        seconds[getattr(task, kind)] += task.seconds
    return dict(sorted(seconds.items(), key=lambda share: -share[1]))


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in seconds.items()}


def _noting(path: Path, program: str, log: Path) -> Path:
    path.write_text(_NOTING.format(log=log, program=program))
    path.chmod(0o755)
    return path


def _used() -> float:
    """CPU seconds of children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
