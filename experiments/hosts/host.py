"""Host of a data center: power, ssh and journal."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from acquisition import lifeline
from acquisition.errors import ShardpulseError
from experiments.testbed.network import Host as Place

CGROUPS = Path("/sys/fs/cgroup")
_HERE = Path(__file__).resolve().parent
_SECONDS = 60.0  #: an answer over ssh, or a boot, at most
_PAUSE = 0.02  #: seconds between two looks

_BOOT = "cat /proc/sys/kernel/random/boot_id"


class HostError(ShardpulseError):
    """A command failed on a host; the message has its output."""


class Host:
    """``name`` and ``address`` are as seen by the others; ``link`` is its cable, for faults."""

    def __init__(self, place: Place, name: str, directory: Path, lower: Sequence[Path], ssh: Sequence[str]) -> None:
        self.name, self.address, self.link = name, place.address, place.link
        self._place, self._directory, self._lower = place, directory, ":".join(map(str, lower))
        self._ssh = [*ssh, f"root@{self.address}"]
        self._cgroup = f"shardpulse-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._box: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"Host({self.name}, {self.address})"

    @property
    def running(self) -> bool:
        """Whether it has power: a reboot does not take it away, ``systemctl poweroff`` does."""
        return self._box is not None and self._box.poll() is None

    @property
    def files(self) -> Path:
        """Files written to its disk, by path from the root; to be changed only while it has no power."""
        return self._directory / "upper"

    def begin(self) -> None:
        """Switch it on, without waiting. The calling thread has to live as long as the host."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("the kernel ends a host with the thread that started it: begin in the main thread")
        assert not self.running, f"{self} is on already"
        words = [str(_HERE / "box.sh"), str(self._directory), self.name, self._lower, self._cgroup]
        with self._place.inside(), (self._directory / "box").open("ab") as said:
            self._box = subprocess.Popen(
                lifeline.tied(["/bin/sh", *words], signal.SIGTERM), stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )

    def start(self) -> None:
        """Switch it on and wait until systemd has started everything."""
        self.begin()
        self.wait()

    def wait(self) -> None:
        """Wait until systemd has started everything, or has failed to: tests for that check the units."""
        self._await(self._is_up)

    def kill(self) -> None:
        """A power cut: all of its processes end at once; its disk is kept, its memory is lost."""
        if self._box is not None:
            self._box.terminate()
            self._box.wait()

    def reboot(self) -> None:
        """Reboot in order, and wait until it is up again."""
        before = self.ssh(_BOOT)
        self.try_ssh("systemctl reboot")
        self._await(lambda: self.try_ssh(_BOOT).stdout not in {"", before})
        self.wait()

    def ssh(self, command: str, *, given: str | bytes = "", seconds: float = _SECONDS) -> str:
        """Output of a shell command, run by root with the input ``given``. Raises HostError."""
        done = self.try_ssh(command, given=given, seconds=seconds)
        if done.returncode:
            raise HostError(f"{self.name}: {command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def command(self, words: str) -> list[str]:
        """Command line that runs a shell command as root, for callers that start it themselves."""
        return [*self._ssh, words]

    def try_ssh(
        self, command: str, *, given: str | bytes = "", seconds: float = _SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """As ``ssh``, for a command that may fail; the exit code is 255 if the host does not answer."""
        data = given.encode() if isinstance(given, str) else given
        try:
            done = subprocess.run(self.command(command), check=False, input=data, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired as error:
            raise HostError(f"{self.name}: {command}: no answer for {seconds} s") from error
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def write(self, path: str, content: str | bytes, mode: str = "644", owner: str = "root:root") -> None:
        """Write a file on the host, and create its parent directories."""
        place = shlex.quote(path)
        self.ssh(
            f"mkdir -p $(dirname {place}) && install -m {mode} -o {owner.partition(':')[0]} -g "
            f"{owner.partition(':')[2]} /dev/stdin {place}",
            given=content,
        )

    def journal(self, unit: str, *options: str) -> str:
        """Journal of a unit since the host's start."""
        return self.ssh(f"journalctl --boot --no-pager --output=short-precise --unit={unit} {' '.join(options)}")

    def cgroups(self) -> list[Path]:
        """Its cgroups, as paths of the machine: none while it has no power."""
        return [*CGROUPS.glob(self._cgroup), *CGROUPS.glob(f"*/{self._cgroup}")]

    def said(self) -> str:
        """Text on its console, for error messages after a timeout."""
        files = self._directory / "box", self._directory / "console"
        return f"{self.name}:\n" + "".join(file.read_text(errors="replace")[-2000:] for file in files if file.exists())

    def _await(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise HostError(f"waited in vain for {_SECONDS:g} s: {self.said()}")
            time.sleep(_PAUSE)

    def _is_up(self) -> bool:
        if not self.running:
            raise HostError(f"it went off: {self.said()}")
        done = self.try_ssh("systemctl is-system-running")
        return done.stdout.strip() in {"running", "degraded"}
