"""Programs run for a recording: real ones of many kinds, in several slots."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import UnavailableError

_DATA_MEGABYTES = 24

_REPEATS = 400  #: a program that ends within a second is never seen by a probe at 1 Hz

#: Name, and the command over the text in file D (D*: many times), with T for a directory. Those that are installed run.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "xz": ("xz", "-9", "-c", "-T1", "D*"),
    "gzip": ("gzip", "-9", "-c", "D*"),
    "bzip2": ("bzip2", "-c", "D*"),
    "sha256sum": ("sha256sum", "D*"),
    "sort": ("sort", "--parallel=1", "-S", "16M", "-T", "T", "D"),
    "grep": ("grep", "-c", "-E", "(a+b|c.d)+e", "D*"),
    "awk": ("awk", "{s+=length($0)} END{print s}", "D*"),
    "openssl": ("openssl", "speed", "-seconds", "3", "sha256"),
    "find": ("find", "/usr", "/var", "-xdev", "-newer", "D"),
    "dd": ("dd", "if=/dev/urandom", "of=/dev/null", "bs=64k"),
    "python-compile": (sys.executable, "-m", "compileall", "-q", "-f", "T/package"),
    "python-sleepy": (sys.executable, "-c", "import time\nwhile True:\n sum(range(300000)); time.sleep(0.05)"),
    "python-bursty": (sys.executable, "-c", (
        "import time, random\n"
        "while True:\n"
        "    end = time.time() + random.random() * 3\n"
        "    while time.time() < end: sum(range(9999))\n"
        "    time.sleep(random.random() * 5)"
    )),
}  # fmt: skip


class Ran(NamedTuple):
    """A program that ran in a slot, by the monotonic clock."""

    slot: int
    name: str
    pid: int
    began: float
    ended: float


class Programs:
    """Slots in threads; each runs programs for 3 to 60 s, over and over while they are shorter, and pauses between.

    Which, how long and how the pauses are is a function of ``seed``; what the machine makes of them is not.
    """

    def __init__(self, slots: int, seed: int, directory: Path, clock: Callable[[], float]) -> None:
        self.ran: list[Ran] = []
        self._clock, self._directory = clock, directory
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._names = [name for name, command in _COMMANDS.items() if shutil.which(command[0])]
        if not self._names:
            raise UnavailableError("none of the programs that a recording runs is installed")
        prepare(directory, seed)
        self._threads = [
            threading.Thread(target=self._run, args=(slot, random.Random(f"{seed}/{slot}"))) for slot in range(slots)
        ]

    def __enter__(self) -> Programs:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, slot: int, chance: random.Random) -> None:
        self._stop.wait(chance.uniform(0.0, 5.0))
        while not self._stop.is_set():
            name = chance.choice(self._names)
            until = self._clock() + chance.uniform(3.0, 60.0)
            while self._clock() < until and not self._stop.is_set():
                self._once(slot, name, until)
            self._stop.wait(chance.expovariate(1.0 / 40.0))

    def _once(self, slot: int, name: str, until: float) -> None:
        command = [filled for word in _COMMANDS[name] for filled in _filled(word, self._directory)]
        began = self._clock()
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while child.poll() is None and self._clock() < until and not self._stop.wait(0.1):
                pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            child.wait()
        with self._lock:
            self.ran.append(Ran(slot, name, child.pid, began, self._clock()))
        self._stop.wait(0.05)


def prepare(directory: Path, seed: int) -> None:
    """Text to work on, and a package to compile."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghij", k=chance.randint(2, 9))) for _ in range(5000)]
    block = "\n".join(" ".join(chance.choices(words, k=12)) for _ in range(12_000)) + "\n"
    with (directory / "data").open("w") as file:
        for _ in range(max(1, _DATA_MEGABYTES * 1_000_000 // len(block))):
            file.write(block)
    package = directory / "package"
    package.mkdir()
    source = "\n".join(f"def f{index}(x): return [x * {index} + y for y in range({index})]" for index in range(2000))
    for index in range(60):
        (package / f"module_{index}.py").write_text(source)


def _filled(word: str, directory: Path) -> list[str]:
    if word in ("D", "D*"):
        return [str(directory / "data")] * (1 if word == "D" else _REPEATS)
    return [str(directory)] if word == "T" else [word.replace("T/", f"{directory}/")]
