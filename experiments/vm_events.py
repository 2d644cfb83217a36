"""VM start and stop detection: delay to readers, ten VMs at a time.

Real qemu processes whose guests halt, a real probe as shipped, shards, a filter and the service, which is asked for
the newest of every row all the time. ``--vms`` guests are started and killed, ``--together`` at a time: of each, the
seconds until the answer has it, and lacks it. Then storms, in which guests are started and killed at random: no VM may
be there twice, and the probe keeps no descriptor of one that has gone. Needs qemu-system-x86_64.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acquisition import lifeline
from acquisition.errors import UnavailableError
from acquisition.shards.servers.launch import start_shards
from experiments.harness import outcome
from experiments.harness.service import Service, serving
from experiments.processes import needs
from experiments.processes.control import product
from experiments.processes.program import program

_QEMU = "qemu-system-x86_64"
_QUESTION = "/v1/snapshot?set=vms&metric=memory_assigned_bytes&reading=latest&fields=validity"
_PATIENCE, _PAUSE, _SETTLES = 60.0, 0.03, 10.0
_PREFIX = f"events-{os.getpid()}-"  #: other guests of this machine have other names
_OF_A_PROCESS = re.compile(r"/proc/\d+(?=/)")
_HALT = (b"\xf4" * 0xFFF0 + b"\xfa\xf4\xeb\xfd").ljust(1 << 16, b"\xf4")  #: a ROM: cli; hlt; jmp

NEEDS = (needs.tool(_QEMU, "qemu-system-x86"), needs.tool("setpriv", "util-linux"))


class Delays(NamedTuple):
    """Seconds from start or kill until the answer shows it; ``p95`` and ``most`` over ``guests`` guests."""

    guests: int
    p50: float
    p95: float
    most: float


def delays(seconds: Iterable[float]) -> Delays:
    """The figures of some delays."""
    found = np.array(list(seconds))
    return Delays(len(found), *(round(float(part), 3) for part in np.percentile(found, (50, 95, 100))))


class Stage:
    """Shards, filter, service and the probe of this machine, ended by ``stack``."""

    def __init__(self, stack: ExitStack) -> None:
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-")))
        (self.directory / "rom").write_bytes(_HALT)
        shards = stack.enter_context(start_shards(1, self.directory / "shards", maxmemory_bytes=128 << 20))
        config = self.directory / "probe.toml"
        config.write_text(
            f'[host]\nname = "here"\n[probe]\nring_path = "{self.directory}/ring"\n'
            "[probe.host]\nenabled = false\n[probe.processes]\nenabled = false\n"
        )
        self._children = [self._spawn(stack, product(part, config, shards.addresses)) for part in ("filter", "probe")]
        self.service: Service = stack.enter_context(
            serving(shards.addresses, self.directory, max(os.sched_getaffinity(0)))
        )
        self.twice: set[str] = set()
        self._guests: dict[str, subprocess.Popen[bytes]] = {}
        stack.callback(self.kill_all)

    def _spawn(self, stack: ExitStack, command: list[str]) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(lifeline.tied(command), stdout=subprocess.DEVNULL)
        stack.callback(child.wait)
        stack.callback(child.kill)
        return child

    def start(self, number: int) -> str:
        """Start a guest; its name."""
        name = f"{_PREFIX}{number}"
        words = ["-accel", "tcg", "-name", f"guest={name}", "-uuid", str(uuid.uuid4()), "-m", "16"]
        words += ["-display", "none", "-nodefaults", "-bios", f"{self.directory}/rom"]
        self._guests[name] = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", _QEMU, *words], stdin=subprocess.DEVNULL
        )
        return name

    def kill(self, name: str) -> None:
        """End a guest at once."""
        guest = self._guests.pop(name)
        guest.kill()
        guest.wait()

    def kill_all(self) -> None:
        """End every guest."""
        for name in list(self._guests):
            self.kill(name)

    def look(self) -> set[str]:
        """The guests in the newest answer; duplicates are added to ``twice``."""
        answer = self.service.ask(_QUESTION)
        rows = [row for block in answer["blocks"] for row in block["entities"]] if answer else []
        names = [row["name"] for row in rows if row["name"].startswith(_PREFIX)]
        self.twice |= {name for name in names if names.count(name) > 1}
        return set(names)

    def until(self, wanted: dict[str, float], there: bool) -> list[float]:
        """Look until all of ``wanted`` are listed, or are gone: the delay of each since its moment."""
        took: dict[str, float] = {}
        deadline = time.monotonic() + _PATIENCE
        while len(took) < len(wanted):
            seen, now = self.look(), time.monotonic()
            took |= {name: now - at for name, at in wanted.items() if name not in took and (name in seen) == there}
            if now > deadline:
                raise UnavailableError(f"{sorted(wanted.keys() - took)} are not {'seen' if there else 'gone'}")
            time.sleep(_PAUSE)
        return list(took.values())

    def left(self) -> int:
        """Number of the probe's open descriptors of ended processes, once there are none or after a while."""
        deadline = time.monotonic() + _SETTLES
        while (found := sum(map(_is_of_the_dead, self._descriptors()))) and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        return found

    def _descriptors(self) -> list[tuple[str, str]]:
        """Open descriptors of the probe: the target of each, and the kernel's information about it."""
        base, found = Path(f"/proc/{self._children[-1].pid}"), []
        for number in os.listdir(base / "fd"):
            with suppress(FileNotFoundError):
                found.append((os.readlink(base / "fd" / number), (base / "fdinfo" / number).read_text()))
        return found


def _is_of_the_dead(descriptor: tuple[str, str]) -> bool:
    """Whether it is a file of an ended process in /proc, or a pidfd of one (proc(5): its Pid is then -1)."""
    target, info = descriptor
    process = _OF_A_PROCESS.match(target)
    return "Pid:\t-1\n" in info or (process is not None and not os.path.exists(process[0]))


def measure(stage: Stage, vms: int, together: int) -> tuple[Delays, Delays]:
    """Start and kill the guests, some at a time: the delays of starts and of stops."""
    starts: list[float] = []
    stops: list[float] = []
    for first in range(0, vms, together):
        moments: dict[str, float] = {}
        for number in range(first, min(vms, first + together)):
            now = time.monotonic()
            moments[stage.start(number)] = now
        starts += stage.until(moments, there=True)
        for name in moments:
            moments[name] = time.monotonic()
            stage.kill(name)
        stops += stage.until(moments, there=False)
        time.sleep(random.uniform(0.0, 1.0))  # the next at another moment of a tick
    return delays(starts), delays(stops)


def storm(stage: Stage, first: int, vms: int, chance: random.Random) -> None:
    """Start the guests and kill them, each at a random moment, until none is listed."""
    alive: list[str] = []
    began = {}
    for number in range(first, first + vms):
        alive.append(stage.start(number))
        began[alive[-1]] = 0.0
        if chance.random() < 0.5:
            stage.kill(alive.pop(chance.randrange(len(alive))))
        stage.look()
    for name in alive:
        stage.kill(name)
    stage.until(began, there=False)


@program("vm_events")
def main(argv: list[str]) -> int:
    """Perform and print; 0 if delays and leftovers are as required."""
    made = outcome.bare_parser("vm_events", __doc__)
    made.add_argument(
        "--vms", type=int, default=50, metavar="N", help="guests that are started and killed (default 50)"
    )
    made.add_argument("--together", type=int, default=10, metavar="N", help="of them at a time (default 10)")
    made.add_argument("--storms", type=int, default=10, metavar="N", help="storms after that (default 10)")
    made.add_argument("--size", type=int, default=20, metavar="N", help="guests of a storm (default 20)")
    made.add_argument("--within", type=float, default=1.2, metavar="S", help="p95 of the delays at most (default 1.2)")
    made.add_argument("--seed", type=int, default=1, help="of the storms (default 1)")
    given = made.parse_args(argv)
    needs.require(*NEEDS)
    failures = []
    with ExitStack() as stack:
        stage = Stage(stack)
        warm = {stage.start(1 << 20): time.monotonic()}
        stage.until(warm, there=True)
        stage.kill_all()
        stage.until(warm, there=False)
        starts, stops = measure(stage, given.vms, given.together)
        chance = random.Random(given.seed)
        for number in range(given.storms):
            storm(stage, 1000 * (number + 1), given.size, chance)
        left = stage.left()
        twice = sorted(stage.twice)
    failures += [
        f"{what} within {found.p95} s at the 95th percentile, not {given.within}"
        for what, found in (("starts", starts), ("stops", stops))
        if found.p95 > given.within
    ]
    failures += [f"the probe has {left} descriptors of processes that are gone"] if left else []
    failures += [f"there twice: {twice}"] if twice else []
    document = {"starts": starts._asdict(), "stops": stops._asdict(), "stormed": given.storms * given.size}
    print(json.dumps({"passed": not failures, **document, "descriptors_left": left, "failures": failures}, indent=2))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
