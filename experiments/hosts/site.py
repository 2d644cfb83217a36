"""Site: hosts on which the playbooks of ``deploy`` run from a controller."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import CannotCreateError
from experiments.hosts import Host, tree
from experiments.processes import debian

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
NAMES = ["node1", "node2", "node3"]
PARTS = "probe,filter,serve,archive"
#: These hosts share the machine's kernel, clock and memory.
VARIABLES = {
    "redis_shard_replicas": 1, "redis_shard_maxmemory": 64 << 20, "redis_shard_connections": 500,
    "ansible_user": "admin",
    "common_sysctl": {"net.core.somaxconn": 4096}, "common_huge_pages": "", "common_time_packages": [],
    "controller_command": str(BIN / "shardpulse"),
}  # fmt: skip
_SECONDS = 900.0  #: maximum for a playbook, or for building wheels
_NOTHING: Mapping[str, str] = {}


class Site(NamedTuple):
    """The hosts, and the directory of the inventory; ssh's configuration is in ``hosts`` beside that directory."""

    hosts: Mapping[str, Host]
    directory: Path

    def inventory(self, **changes: Any) -> dict[str, Any]:
        """Three machines with everything; ``changes`` are variables of all."""
        everyone: dict[str, Any] = {"hosts": {name: {} for name in NAMES}}
        ssh = {"ansible_ssh_common_args": f"-F {self.directory.parent / 'hosts' / 'ssh_config'}"}
        wheels = {"controller_wheelhouse": str(self.directory / "wheels"), "controller_packed": str(self.directory)}
        addresses = {name: {"ansible_host": host.address} for name, host in self.hosts.items()}
        return {
            "all": {"vars": VARIABLES | ssh | wheels | changes, "hosts": addresses},
            "shards": everyone, "filters": everyone, "probes": everyone,
            "servers": {"hosts": {"node1": {}}}, "archives": {"hosts": {"node2": {}}},
        }  # fmt: skip

    def play(
        self, book: str, *options: str, inventory: Any = None, through: Sequence[str] = (), **told: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook; ``through`` is a command line that runs the command, ``told`` is added to its environment.
        Raises subprocess.TimeoutExpired."""
        command, environment = self._command(book, options, inventory)
        return whole([*through, *command], DEPLOY, environment | told)

    @contextmanager
    def playing(
        self, book: str, *options: str, inventory: Any = None, said: Path, **told: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A running playbook, with its output in ``said``; it is ended with the block."""
        command, environment = self._command(book, options, inventory)
        with said.open("wb") as log:
            run = subprocess.Popen(
                command, cwd=DEPLOY, env=os.environ | environment | told, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
            )  # fmt: skip
            try:
                yield run
            finally:
                run.terminate()
                run.wait()

    def _command(self, book: str, options: Sequence[str], inventory: Any) -> tuple[list[str], dict[str, str]]:
        """Command that runs a playbook, and additions to the caller's environment."""
        file = self.directory / "hosts.json"
        file.write_text(json.dumps(inventory or self.inventory()))
        environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
        }
        return [str(BIN / "ansible-playbook"), "-i", str(file), book, *options], environment

    def shows(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Output of the controller's command."""
        config = str(self.directory / "secrets" / f"{user}.toml")
        return subprocess.run(
            [str(BIN / "shardpulse"), *words, "--config", config],
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def hang_up(self) -> None:
        """End the connections kept by Ansible for the next playbook."""
        for path in (self.directory / "ansible" / "cp").glob("*"):
            subprocess.run(["ssh", "-O", "exit", "-S", str(path), "host"], capture_output=True, check=False)


def whole(command: list[str], directory: Path, told: Mapping[str, str] = _NOTHING) -> subprocess.CompletedProcess[str]:
    """Run a command, ``told`` is added to its environment; whatever ends this, including a signal, ends all processes
    started by it. Raises subprocess.TimeoutExpired."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=directory, env=os.environ | dict(told), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
        text=True, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            out, err = running.communicate(timeout=_SECONDS)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, running.returncode, out, err)


def build_wheels(wheels: Path, python: str = tree.PYTHON, told: Mapping[str, str] = _NOTHING) -> None:
    """A wheelhouse for all parts and the hosts' Python: this checkout in its current state, and its dependencies, from
    the user's cache. Raises CannotCreateError."""
    needed = needed_wheels(python, told)
    _build("wheel", "--as-they-lie", "--out", str(wheels), told=told)
    for wheel in needed.glob("*.whl"):
        shutil.copy(wheel, wheels)


def needed_wheels(python: str = tree.PYTHON, told: Mapping[str, str] = _NOTHING) -> Path:
    """Wheels needed by all parts with the hosts' Python, collected once. Raises CannotCreateError."""
    constraints = (DEPLOY / "constraints.txt").read_text()

    def collect(part: Path) -> None:
        words = ["wheelhouse", "--python", python, "--extra", PARTS, "--as-they-lie", "--out", str(part)]
        _build(*words, told=told)
        for own in part.glob("shardpulse-*"):
            own.unlink()

    return debian.kept("wheels", [PARTS, python, constraints], collect)


def _build(*words: str, told: Mapping[str, str]) -> None:
    made = whole([str(DEPLOY / "build"), *words], ROOT, told)
    if made.returncode:
        raise CannotCreateError(f"deploy/build {' '.join(words)}: {made.stderr[-2000:]}")


def said(done: subprocess.CompletedProcess[str], hosts: Mapping[str, Host]) -> str:
    """End of a playbook's output, and the journals of all parts."""
    journals = [
        f"{host}\n{host.try_ssh('journalctl -u shardpulse* -n 30 --no-pager').stdout}" for host in hosts.values()
    ]
    return "\n".join([done.stdout[-6000:], done.stderr[-2000:], *journals])


def changed(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Number of changes on each host, by the play recap."""
    return {
        host: int(count) for host, count in re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", done.stdout, re.MULTILINE)
    }
