"""Extended checkout with a newcomer's additions.

Its packages are links, that of the probe is a copy with toys in it.

An addition is what ``docs/architecture.md`` promises: one file, and one line in a registry. Commands run in such a
tree as they do in this one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

from acquisition.shards.servers.launch import Shards
from tests.support import ROOT

TOYS = ROOT / "tests" / "extending" / "toys"
FIXTURES = ROOT / "tests" / "extending" / "fixtures"
_LINKED = ("acquisition", "filters")


class Addition(NamedTuple):
    """``toy`` becomes the file ``place``; in ``registry`` the text ``before`` becomes ``after``."""

    toy: str
    place: str
    registry: str
    before: str
    after: str


class ExtendedTree:
    """The tree with ``additions`` in ``directory``; ``environment`` is what its commands see beside ours."""

    def __init__(self, directory: Path, additions: list[Addition], environment: Mapping[str, str]) -> None:
        self.directory = directory
        self._environment = {**os.environ, **environment}
        for name in _LINKED:
            (directory / name).symlink_to(ROOT / name)
        shutil.copytree(ROOT / "probes", directory / "probes", ignore=shutil.ignore_patterns("__pycache__"))
        for addition in additions:
            self._add(addition)

    def _add(self, addition: Addition) -> None:
        place, registry = self.directory / addition.place, self.directory / addition.registry
        assert not place.exists(), "an addition changes no other file"
        shutil.copy(TOYS / addition.toy, place)
        text = registry.read_text()
        assert text.count(addition.before) == 1, f"{addition.registry} has no place for {addition.toy}"
        assert "\n" not in addition.after.replace(addition.before, "").strip("\n"), "a registration is one line"
        registry.write_text(text.replace(addition.before, addition.after))

    def command(self, *arguments: object) -> list[str]:
        """The command line of ``shardpulse ARGUMENTS``."""
        return [sys.executable, "-m", "acquisition", *map(str, arguments)]

    def run(self, *arguments: object, seconds: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run ``shardpulse ARGUMENTS`` to its end."""
        return subprocess.run(
            self.command(*arguments), cwd=self.directory, env=self._environment, capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip

    def printed(self, *arguments: object) -> str:
        """What a command prints that must not fail."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: object, said: IO[Any]) -> subprocess.Popen[str]:
        """Start ``shardpulse ARGUMENTS``; ``said`` takes its stderr."""
        return subprocess.Popen(
            self.command(*arguments), cwd=self.directory, env=self._environment, stdout=subprocess.PIPE, stderr=said,
            text=True,
        )  # fmt: skip

    def module(self, *arguments: str) -> str:
        """What ``python -m ARGUMENTS`` prints here."""
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(
            command, cwd=self.directory, env=self._environment, capture_output=True, text=True, check=True
        )
        return done.stdout


class ExtendedPipeline:
    """Shards, probes with these configurations by host name, a filter and the query service, all of one tree."""

    def __init__(self, tree: ExtendedTree, shards: Shards, hosts: Mapping[str, str]) -> None:
        self.tree = tree
        self.said = tree.directory / "said"
        self._processes: list[subprocess.Popen[str]] = []
        addresses = json.dumps([str(address) for address in shards.addresses])
        self.common = self._configure("common", f'[shards]\naddresses = {addresses}\n[serve]\nbind = "127.0.0.1:0"\n')
        self._log = open(self.said, "wb")  # noqa: SIM115 - closed with the pipeline
        for host, text in hosts.items():
            ring = tree.directory / f"{host}.ring"
            table = f'[host]\nname = "{host}"\n[shards]\naddresses = {addresses}\n[probe]\nring_path = "{ring}"\n'
            self._start("probe", "--config", self._configure(host, f"{table}{text}"))
        self._start("filter", "--config", self.common)
        serving = self._start("serve", "--config", self.common)
        assert serving.stdout is not None
        self.url = serving.stdout.readline().split()[-1]

    def _configure(self, name: str, text: str) -> Path:
        path = self.tree.directory / f"{name}.toml"
        path.write_text(text)
        return path

    def _start(self, *arguments: object) -> subprocess.Popen[str]:
        self._processes.append(self.tree.start(*arguments, said=self._log))
        return self._processes[-1]

    def query(self, *arguments: str) -> list[dict[str, Any]]:
        """The rows of ``shardpulse query --latest ARGUMENTS``; none while nothing matches."""
        done = self.tree.run("query", "--latest", "--json", "--config", self.common, *arguments)
        rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"] if done.returncode == 0 else []
        return rows

    def get(self, path: str) -> str:
        """The answer of the service to GET."""
        with urllib.request.urlopen(f"{self.url.rstrip('/')}{path}", timeout=10.0) as answer:
            return str(answer.read(), "utf-8")

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()
        self._log.close()
