"""Live migration of a real guest between two hosts, as readers see it.

Two process-id namespaces stand for two hosts: in each runs a real probe, which sees only the processes of its own, and
a real qemu. A busy guest is migrated live (QMP ``migrate``) ``--migrations`` times, to and fro: at random it ends well,
is cancelled, or one of the two processes is killed on the way, the source's with the guest in it. Readers that have
never read before ask for it all the time: each must see it where it runs, never elsewhere, and none a conflict. At last
the guest is started once more on the other host, with the same uuid and name: readers must say that it runs twice, and
that it does not once one copy has ended. Needs root (unshare(1)), qemu-system-x86_64 and, for
``--accelerator kvm``, /dev/kvm.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.vms.placement import CONFLICT, MIGRATING, RUNNING, Placement
from experiments.harness import outcome
from experiments.processes import needs
from experiments.processes.guest import Monitor, busy_floppy
from experiments.processes.program import program

_UUID = "0a1b2c3d-0000-4000-8000-000000000001"
_QEMU = "qemu-system-x86_64"
_PATIENCE = 30.0
#: How a migration may end, the last three as faults.
_WELL, _CANCELLED, _TARGET_KILLED, _SOURCE_KILLED = ENDS = ("well", "cancelled", "target killed", "source killed")
_SLOWLY, _FAST = 1 << 18, 100 << 20  #: bytes/s of a migration: one that stays in progress, one that ends


class Seen(NamedTuple):
    """One answer, ``seconds`` after the start."""

    seconds: float
    host: str
    state: str
    other_hosts: tuple[str, ...]


class Stage:
    """Shards, a filter and hosts, all ended by ``stack``."""

    def __init__(self, stack: ExitStack, accelerator: str) -> None:
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-")))
        self.shards: Shards = stack.enter_context(start_shards(2, self.directory / "shards", maxmemory_bytes=128 << 20))
        self._stack, self._accelerator = stack, accelerator
        (self.directory / "floppy").write_bytes(busy_floppy())
        addresses = ",".join(map(str, self.shards.addresses))
        self._spawn([sys.executable, "-m", "acquisition", "filter", "--shards", addresses])
        self._began = time.monotonic()
        self.seen: list[Seen] = []

    def _spawn(self, command: list[str]) -> None:
        child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._stack.callback(child.wait)
        self._stack.callback(_end, child)

    def host(self, name: str) -> None:
        """Start the probe of a host, in its own namespace, which further commands on the host join."""
        addresses = ", ".join(f'"{address}"' for address in self.shards.addresses)
        configuration = self.directory / f"{name}.toml"
        configuration.write_text(
            f'[host]\nname = "{name}"\n[shards]\naddresses = [{addresses}]\n[probe]\ninterval_seconds = 0.5\n'
            f'ring_path = "{self.directory}/{name}.ring"\ndiscovery_interval_seconds = 0.5\n'
            "[probe.processes]\nenabled = false\n"
        )
        probe = f"{sys.executable} -m acquisition probe --config {configuration}"
        orders = f"exec 3<>{self._pipe(name)}; while read line <&3; do ( $line; : ) & done"  # reaps its children
        self._spawn(["unshare", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", f"{probe} & {orders}"])

    def _pipe(self, name: str) -> Path:
        path = self.directory / f"{name}.pipe"
        if not path.exists():
            os.mkfifo(path)
        return path

    def guest(self, name: str, serial: int, incoming: bool) -> Monitor:
        """Start a qemu process on a host."""
        monitor = self.directory / f"{name}-{serial}.qmp"
        command = (
            f"{_QEMU} -accel {self._accelerator} -name guest=mover,debug-threads=on -uuid {_UUID}"
            " -m 256 -display none -nodefaults"
            f" -drive file={self.directory}/floppy,format=raw,if=floppy,readonly=on"
            f" -qmp unix:{monitor},server=on,wait=off" + (" -incoming defer" if incoming else "")
        )
        with self._pipe(name).open("w") as pipe:
            pipe.write(command + "\n")
        made = Monitor(monitor)
        self._stack.callback(made.close)
        return made

    def look(self) -> Placement | None:
        """Placement of the guest as seen by a new reader."""
        with SnapshotReader(self.shards.connect(), 0.3) as reader:
            found = reader.coherent().placements.all.get(_UUID)
        if found is not None:
            seen = Seen(round(time.monotonic() - self._began, 1), found.host, found.state, found.other_hosts)
            if not self.seen or self.seen[-1][1:] != seen[1:]:
                self.seen.append(seen)
        return found

    def until(self, host: str, state: str, never: str = "") -> str:
        """Look until the guest is there; the failure, "" if there was none."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = self.look()
            if found is not None and found.host == never:
                return f"the guest was seen on {never} while it could only be on {host}"
            if found is not None and found.state == CONFLICT:
                return f"a migration between {host} and {found.other_hosts} was taken for a conflict"
            if found is not None and (found.host, found.state) == (host, state):
                return ""
            time.sleep(0.1)
        return f"the guest is not {state} on {host} within {_PATIENCE:g} s: {self.seen[-1:]}"

    def until_twice(self, hosts: set[str]) -> str:
        """Look until the guest runs on exactly these hosts (none: not on several); the failure."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            found = self.look()
            if found is not None and set(found.running_hosts) == hosts:
                return ""
            time.sleep(0.1)
        return f"readers do not say within {_PATIENCE:g} s that the guest runs on {sorted(hosts) or 'one host only'}"


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def _no_namespace() -> str:
    """Why no process-id namespace can be created; "" if one can, or if the tool for it is missing."""
    if shutil.which("unshare") is None:
        return ""
    tried = subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"], capture_output=True, text=True, check=False)
    return f"no process-id namespace can be made (run it as root): {tried.stderr.strip()}" if tried.returncode else ""


class Performed(NamedTuple):
    """Numbers of migrations by their end, their duration in seconds, and failures."""

    migrations: int
    ends: dict[str, int]
    seconds: float
    failures: list[str]


def perform(stage: Stage, ends: Iterable[str], seconds: float = math.inf) -> Performed:
    """Perform migrations with these ends, one after the other, for this number of seconds; then two guests at once."""
    for name in ("a", "b"):
        stage.host(name)
    guest, host = stage.guest("a", 0, incoming=False), "a"
    failures = [stage.until("a", RUNNING, never="b")]
    began, done = time.monotonic(), Counter[str]()
    for serial, end in enumerate(ends, 1):
        if time.monotonic() - began >= seconds:
            break
        guest, host = _migrate(stage, guest, host, end, 2 * serial, failures)
        done[end] += 1
    took = round(time.monotonic() - began, 1)
    copy = stage.guest(_other(host), 1, incoming=False)
    failures.append(stage.until_twice({"a", "b"}))
    copy.end()
    failures.append(stage.until_twice(set()))
    failures.append(stage.until(host, RUNNING, never=_other(host)))
    guest.end()
    return Performed(done.total(), dict(done), took, [failure for failure in failures if failure])


def _other(host: str) -> str:
    return "b" if host == "a" else "a"


def _migrate(
    stage: Stage, source: Monitor, here: str, end: str, serial: int, failures: list[str]
) -> tuple[Monitor, str]:
    """Perform one migration; the process with the guest afterwards, and its host."""
    there = _other(here)
    target = _begin(stage, source, (here, there), serial, _FAST if end == _WELL else _SLOWLY, failures)
    if end == _WELL:
        failures.append(stage.until(there, MIGRATING))
        source.end()
        failures.append(stage.until(there, RUNNING, never=here))
        return target, there
    failures.append(stage.until(here, MIGRATING, never=there))
    if end == _SOURCE_KILLED:  # the guest is gone; the waiting process, which ends by itself, never had it
        source.kill()
        target.close()
        source = stage.guest(here, serial + 1, incoming=False)
    elif end == _TARGET_KILLED:
        target.kill()
    else:
        source.ask("migrate_cancel")
        target.close()  # it has ended by itself
    failures.append(stage.until(here, RUNNING, never=there))
    return source, here


def _begin(
    stage: Stage, source: Monitor, way: tuple[str, str], serial: int, speed: int, failures: list[str]
) -> Monitor:
    """Start a process to receive the guest, and the migration to it."""
    here, there = way
    target = stage.guest(there, serial, incoming=True)
    failures.append(stage.until(here, MIGRATING, never=there))
    address = f"unix:{stage.directory}/migration-{serial}"
    target.ask("migrate-incoming", uri=address)
    source.ask("migrate-set-parameters", **{"max-bandwidth": speed})
    source.ask("migrate", uri=address)
    return target


NEEDS = (needs.tool(_QEMU, "qemu-system-x86"), needs.tool("unshare", "util-linux"), _no_namespace)


@program("live_migration")
def main(argv: list[str]) -> int:
    """Perform and print; 0 if every answer was right."""
    made = outcome.bare_parser("live_migration", __doc__)
    made.add_argument("--accelerator", choices=("kvm", "tcg"), default="tcg", help="what runs the guest (default tcg)")
    made.add_argument("--migrations", type=int, default=4, metavar="N", help="migrations (default 4: one of each end)")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="determines how they end, beyond the first four")
    made.add_argument("--seconds", type=float, default=math.inf, metavar="S", help="begin none after so many seconds")
    given = made.parse_args(argv)
    needs.require(*NEEDS)
    with ExitStack() as stack:
        stage = Stage(stack, given.accelerator)
        chance = random.Random(given.seed)
        ends = (ENDS[number] if number < len(ENDS) else chance.choice(ENDS) for number in range(given.migrations))
        done = perform(stage, ends, given.seconds)
    document = {"accelerator": given.accelerator, "passed": not done.failures, **done._asdict()}
    print(json.dumps({**document, "seen": [seen._asdict() for seen in stage.seen]}, indent=2))
    return 1 if done.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
