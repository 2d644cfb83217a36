"""Host processes: two exporters and a probe in network namespaces, with faults."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path

from experiments.beside.prometheus import NODE_PORT, PROCESS_PORT, RULES
from experiments.processes.control import Child, python
from experiments.testbed import Host as Place

#: Collectors for the files in the trees; the default set is larger and costs more.
_COLLECTORS = ("cpu", "loadavg", "meminfo", "netdev", "stat", "vmstat")


class Host:
    """Host number ``number``: exporters and probe in different places, so that their bytes are counted apart."""

    def __init__(self, number: int, places: tuple[Place, Place], root: Path, directory: Path, shards: str) -> None:
        self.name = f"host-{number}"
        self.number = number
        self._exporters, self._probe = places
        self._log = directory / f"{self.name}.log"
        self._root, config = root, directory / f"{self.name}.toml"
        config.write_text(
            f'[host]\nname = "{self.name}"\n{shards}[probe]\nring_path = "{root}/ring"\n'
        )  # fmt: skip
        self._config = config
        self._children: dict[str, Child] = {}

    @property
    def address(self) -> str:
        """Address of its exporters."""
        return self._exporters.address

    def pids(self, *roles: str) -> list[int]:
        """Its processes with these roles: ``node``, ``process``, ``probe``."""
        return [self._children[role].pid for role in roles]

    def start(self) -> None:
        """Start everything."""
        proc, sys = self._root / "proc", self._root / "sys"
        flags = [f"--collector.{name}" for name in _COLLECTORS]
        node = [
            _found("prometheus-node-exporter"), f"--path.procfs={proc}", f"--path.sysfs={sys}",
            "--collector.disable-defaults", *flags, "--no-collector.netdev.netlink",
            f"--web.listen-address=:{NODE_PORT}", "--log.level=warn",
        ]  # fmt: skip
        process = [
            _found("prometheus-process-exporter"), "-procfs", str(proc), "-config.path", str(RULES / "processes.yml"),
            "-gather-smaps=false", f"-web.listen-address=:{PROCESS_PORT}",
        ]  # fmt: skip
        probe = python("experiments.beside.probe", str(self._root), "--config", str(self._config))
        commands = {
            "node": (self._exporters, node),
            "process": (self._exporters, process),
            "probe": (self._probe, probe),
        }
        with self._log.open("ab") as log:
            for role, (place, command) in commands.items():
                with place.inside():
                    self._children[role] = Child(f"{role} of {self.name}", command, stdout=log, stderr=log)

    def freeze(self) -> None:
        """SIGSTOP to exporters and probe."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def step_clock(self) -> None:
        """Step the probe's wall clock an hour ahead, or back again; exporters in Go read none for their samples."""
        os.kill(self._children["probe"].pid, signal.SIGUSR1)

    def cut(self) -> None:
        """Pull its cables."""
        for place in (self._exporters, self._probe):
            place.link.cut()

    def heal(self) -> None:
        """Plug them in again."""
        for place in (self._exporters, self._probe):
            place.link.heal()

    def power_off(self) -> None:
        """End all processes; nothing answers any more."""
        self.cut()
        self.kill()

    def power_on(self) -> None:
        """Plug in its cables and start everything."""
        self.heal()
        self.start()

    def kill(self) -> None:
        """kill -9; calling it again is harmless."""
        for child in self._children.values():
            child.kill()

    def bytes_on_the_wire(self) -> tuple[int, int]:
        """Bytes received and sent by the exporters, and by the probe."""
        return self._traffic("node"), self._traffic("probe")

    def _traffic(self, role: str) -> int:
        lines = Path(f"/proc/{self._children[role].pid}/net/dev").read_text().splitlines()
        fields = next(line.split(":")[1].split() for line in lines if line.split(":")[0].strip() == "eth0")
        return int(fields[0]) + int(fields[8])

    def _signal(self, number: signal.Signals) -> None:
        for child in self._children.values():
            os.kill(child.pid, number)


def together(hosts: Iterable[Host], *roles: str) -> list[int]:
    """Processes of all hosts with these roles."""
    return [pid for host in hosts for pid in host.pids(*roles)]


def _found(tool: str) -> str:
    return str(shutil.which(tool))
