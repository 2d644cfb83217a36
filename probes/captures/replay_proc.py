"""Replay of a /proc and /sys capture through live sources and checks.

Discovery is the live one as well.

A capture is a directory with a directory ``tN`` per tick, each with ``proc`` and ``sys`` as in proc(5) and sysfs(5);
``facts.json`` beside them has the facts missing in these files (``Capture``). Sources keep files open and read them
again at each tick. Hence one working tree, whose files are overwritten in place at each tick, stands for /proc and
/sys: a descriptor of an ended process finds another process' start time in it, where the kernel returns ESRCH.

All facts about the machine come from the capture: none of the machine that runs the replay is used.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import DataError, NoInputError
from acquisition.model.codes import name_of
from acquisition.model.ticks import tick_of
from acquisition.terminal import say
from acquisition.wire.frame import Samples
from probes.captures.replay import Machine
from probes.checks import build_pipeline
from probes.loop.agent_settings import ModuleSettings
from probes.loop.dry_run import DryRun
from probes.loop.module import Module
from probes.metrics import RESOURCE_SETS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import read_once
from probes.sampling.schedule import Schedule
from probes.sources import FALLBACK, Request, create

FACTS = "facts.json"
Content = bytes | str | None  #: of a file; the text of a symbolic link; None for a directory
_TICK = re.compile(r"t(\d{1,6})")
_MOST_BYTES = 1 << 24  #: of a file; /proc/stat of the largest machines has a fifth of a mebibyte
_NO_USER = (1 << 32) - 1  #: (uid_t) -1, which no process has
#: The start time of an ended process, in the working tree.
_ENDED = b"0 (ended) X" + b" 0" * 18 + b" 18446744073709551615" + b" 0" * 30
_PROCESS_STAT = re.compile(r"proc/\d+/stat")
_TEXT_ONLY = re.compile(r"proc/\d+/(exe|fd/\d+)")
_AT_ONCE = 1e-6  #: seconds between two scans for processes: once for all modules of a tick
_MOST_SHOWN = 20  #: limit for lines about omitted files
_GONE = 0  #: content of a path that does not exist
_LARGEST = {"hertz": 1_000_000, "page_size": 1 << 30}
_LATEST = 1e11  #: seconds


class Tick(NamedTuple):
    """A directory of the capture and its time in seconds: ``wall`` since 1970, ``monotonic`` of the machine's clock."""

    path: str
    wall: float
    monotonic: float


class Capture(NamedTuple):
    """Content of a capture. ``hertz`` is USER_HZ of proc(5), ``page_size`` is in bytes, ``left_out`` are ticks without
    a time. ``has_facts``: ``shardpulse capture`` has made it, so its files are complete; others may be excerpts."""

    host: str
    hertz: int
    page_size: int
    ticks: tuple[Tick, ...]
    left_out: tuple[str, ...] = ()
    has_facts: bool = False


def find(directory: str, interval: float = 1.0) -> Capture:
    """Content of a capture: its ticks in order. Without ``facts.json`` these are ``interval`` seconds apart, USER_HZ is
    100, a page has 4,096 bytes and the host has no name.

    Raises NoInputError for a directory that cannot be read or has no tick, DataError for invalid facts.
    """
    try:
        names = sorted((int(found[1]), found[0]) for name in os.listdir(directory) if (found := _TICK.fullmatch(name)))
        text = _facts_text(directory)
    except OSError as error:
        raise NoInputError(f"cannot read {directory}: {error.strerror}") from error
    if not names:
        raise NoInputError(f"no ticks in {directory}: expected directories t0, t1, ... with proc and sys")
    for _, name in names:
        if not os.path.isdir(os.path.join(directory, name, "proc")):
            raise DataError(f"{os.path.join(directory, name)} is not a tick of a capture: no directory proc")
    if text is None:
        ticks = [
            Tick(os.path.join(directory, name), number * interval, (number + 1) * interval) for number, name in names
        ]
        return Capture("", 100, 4096, tuple(ticks))
    try:
        return _with_facts(json.loads(text), directory, [name for _, name in names])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise DataError(f"{os.path.join(directory, FACTS)}: invalid facts of a capture: {error!r}") from error


def _facts_text(directory: str) -> bytes | None:
    try:
        return read_once(os.path.join(directory, FACTS), _MOST_BYTES)
    except FileNotFoundError:
        return None


def _with_facts(facts: dict[str, Any], directory: str, names: list[str]) -> Capture:
    times = {str(name): (float(wall), float(monotonic)) for name, (wall, monotonic) in facts["times"].items()}
    if not all(0.0 <= wall <= _LATEST and 0.0 < monotonic <= _LATEST for wall, monotonic in times.values()):
        raise ValueError("a time is out of range")
    for name, most in _LARGEST.items():
        if type(facts[name]) is not int or not 0 < facts[name] <= most:
            raise ValueError(f"{name} is out of range")
    ticks = [Tick(os.path.join(directory, name), *times[name]) for name in names if name in times]
    if not ticks:
        raise ValueError("no tick has a time")
    left_out = tuple(name for name in names if name not in times)
    return Capture(str(facts["host"]), facts["hertz"], facts["page_size"], tuple(ticks), left_out, True)


class CapturedFacts(HostFacts):
    """Facts of the captured machine, with its working tree below ``root``. ``cores`` are the CPUs listed in
    /proc/stat, 0 (unknown: no limit of processes) if it cannot be read or may be an excerpt; the owner of a
    process is the effective user in its status. Facts in ``known`` take precedence over the capture."""

    __slots__ = ("_has_facts", "_known")

    def __init__(self, known: Machine, root: str, capture: Capture, scope: str) -> None:
        self._known = known
        self._has_facts = capture.has_facts
        super().__init__(known.host or capture.host or "host", f"{root}/proc", f"{root}/sys", scope)
        self.machine_id = ""
        self.hertz = capture.hertz
        self.page_size = capture.page_size

    def refresh(self) -> None:
        """See ``HostFacts``."""
        super().refresh()
        listed = re.findall(rb"^cpu\d", _read(f"{self.proc}/stat"), re.MULTILINE) if self._has_facts else ()
        self.cores = self._known.cores or len(listed)
        self.memory_bytes = self._known.memory_bytes or self.memory_bytes

    def owner(self, base: str) -> int:
        """See ``HostFacts``."""
        status = _read(f"{base}/status")
        effective = re.search(rb"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
        return int(effective[1]) if effective else _NO_USER


def _read(path: str) -> bytes:
    try:
        return read_once(path)
    except OSError:
        return b""


class _EveryTick(Discovery):
    """Examines every process at every tick: a capture is short, and a process may start, end or change at any."""

    def scan(self) -> None:
        """See ``Discovery``."""
        self._again |= self._listed
        super().scan()


class Tree:
    """The working tree below ``root``. ``left_out``: paths of captured files that cannot be read, and of links that
    lead out of their tick; they count as absent."""

    def __init__(self, root: str) -> None:
        self.left_out: set[str] = set()
        self._root = root
        self._holds: dict[str, Content] = {}

    def become(self, tick: str) -> None:
        """Replace the content by the directory of a tick."""
        before, self._holds = self._holds, self._contents(tick)
        for path, old in reversed(before.items()):
            if type(self._holds.get(path, _GONE)) is not type(old):
                _remove(self._root, path, old)
        for path, new in self._holds.items():
            if new != before.get(path, _GONE):
                place(os.path.join(self._root, path), new)

    def _leave_out(self, error: OSError) -> None:
        self.left_out.add(str(error.filename))

    def _contents(self, tick: str) -> dict[str, Content]:
        found: dict[str, Content] = {}
        for directory, directories, files in os.walk(tick, onerror=self._leave_out):
            for name in (*directories, *files):
                path = os.path.join(directory, name)
                below = os.path.relpath(path, tick)
                try:
                    found[below] = _content(path, tick, below)
                except OSError:
                    self.left_out.add(path)
        return found


def _content(path: str, tick: str, below: str) -> Content:
    """Content of a path. Raises OSError if it cannot be read, or leads out of its tick."""
    mode = os.lstat(path).st_mode
    if stat.S_ISDIR(mode):
        return None
    if stat.S_ISLNK(mode) and _stays_inside(tick, below):
        return os.readlink(path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a file or link within its tick", path)
    with open(path, "rb") as file:
        return file.read(_MOST_BYTES)


def _stays_inside(tick: str, below: str) -> bool:
    """Whether a symbolic link leads to nothing on this machine: of exe and fd/N only the text is read."""
    top, target = os.path.realpath(tick), os.path.realpath(os.path.join(tick, below))
    return target.startswith(f"{top}{os.sep}") or bool(_TEXT_ONLY.fullmatch(below))


def place(target: str, new: Content) -> None:
    """Make ``target`` a directory, a file or a symbolic link. Raises OSError."""
    os.makedirs(os.path.dirname(target) if new is not None else target, exist_ok=True)
    if new is None:
        return
    if isinstance(new, bytes):
        Path(target).write_bytes(new)  # in place: open descriptors read it
    else:
        Path(target).unlink(missing_ok=True)
        os.symlink(new, target)


def _remove(root: str, path: str, old: Content) -> None:
    target = os.path.join(root, path)
    if old is None:
        os.rmdir(target)
        return
    if isinstance(old, bytes):
        Path(target).write_bytes(_ENDED if _PROCESS_STAT.fullmatch(path) else b"")
    os.unlink(target)


class _Printed(DryRun):
    """A dry run that counts. ``invalid``: validity code -> samples."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.readings = self.samples = 0
        self.invalid: Counter[int] = Counter()

    def offer(self, samples: Samples) -> int:
        """See ``DryRun``."""
        self.readings += 1
        self.samples += samples.entities * samples.metrics
        self.invalid.update(samples.codes.replace(b"\0", b""))
        return super().offer(samples)


class Outcome(NamedTuple):
    """``summary`` for the operator; ``complete``: every tick, file and module could be read."""

    summary: str
    complete: bool


def replay(
    directory: str,
    known: Machine,
    interval: float,
    modules: Sequence[ModuleSettings],
    selection: Selection,
    checks: Mapping[str, dict[str, Any]],
    scope: str = "",
) -> Outcome:
    """Print the readings of a capture as ``shardpulse probe --dry-run`` does.

    ``known`` takes precedence over the capture's facts, ``interval`` is as for ``find``, ``scope`` as
    for ``HostFacts``. Every module reads /proc and /sys at every tick, whatever its source and interval. Raises as
    ``find``.
    """
    capture = find(directory, interval)
    printed = _Printed()
    left_out = [f"{name}: no time in {FACTS}" for name in capture.left_out]
    with tempfile.TemporaryDirectory(prefix="shardpulse-replay-") as root:
        tree = Tree(root)
        tree.become(capture.ticks[0].path)
        facts = CapturedFacts(known, root, capture, scope)
        built = _modules(facts, modules, selection, checks, printed)
        for tick in capture.ticks:
            tree.become(tick.path)
            facts.refresh()
            for module in built:
                module.run(tick_of(tick.wall, module.interval), tick.wall, tick.monotonic)
                if module.problem:
                    left_out.append(f"{os.path.basename(tick.path)}: {module.name}: {module.problem}")
        for module in built:
            module.source.close()
    left_out += [f"{path}: not readable, or a link that leaves its tick" for path in sorted(tree.left_out)]
    return Outcome(_summary(len(capture.ticks), printed, left_out), not left_out)


def _modules(
    facts: HostFacts,
    modules: Sequence[ModuleSettings],
    selection: Selection,
    checks: Mapping[str, dict[str, Any]],
    sink: DryRun,
) -> list[Module]:
    discovery = _EveryTick(facts, selection, _AT_ONCE)
    built = []
    for module in modules:
        resource_set = RESOURCE_SETS[module.resource_set].select(module.metrics)
        source = create(FALLBACK, Request(resource_set, module.interval, facts, discovery, say))
        schedule = Schedule(module.interval, 0.0, 0.0, 0.0)
        built.append(Module(resource_set, source, build_pipeline(resource_set, checks), schedule, facts.name, sink))
    return built


def _summary(ticks: int, printed: _Printed, left_out: list[str]) -> str:
    counted = ", ".join(f"{count} {name_of(code)}" for code, count in sorted(printed.invalid.items()))
    shown = left_out[:_MOST_SHOWN]
    if len(left_out) > len(shown):
        shown.append(f"and {len(left_out) - len(shown)} more")
    first = (
        f"proc: {ticks} ticks, {printed.readings} readings, {printed.samples} samples "
        f"({f'not valid: {counted}' if counted else 'all valid'}), {len(left_out)} left out"
    )
    return "\n".join([first, *(f"  left out: {line}" for line in shown)])
