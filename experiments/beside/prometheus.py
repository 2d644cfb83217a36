"""Prometheus server with rules: started, queried, killed, restarted.

A restart keeps its database.
"""

from __future__ import annotations

import http.client
import json
import shutil
import urllib.parse
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from experiments.beside.answers import Answer, of_prometheus
from experiments.processes.control import Child
from experiments.testbed import Host

RULES = Path(__file__).with_name("rules")
NODE_PORT, PROCESS_PORT = 9100, 9256
ASK_SECONDS = 2.0
_HOSTS, _VMS = "instance:cpu_busy:ratio", "groupname:cores:rate"


class Setting(NamedTuple):
    """One Prometheus: seconds between two scrapes, its file of rules, and its alerts by their column."""

    name: str
    interval: int
    rules: str
    alerts: Mapping[str, str]


FASTEST = "a: 1 s"
SETTINGS = (
    Setting("a", 1, "every_second.yml", {FASTEST: "HostHot"}),
    Setting("b", 15, "five_minutes.yml", {"b: 15 s, 5 min": "HostHot"}),
    Setting("c", 10, "peers.yml", {"c: two minutes": "TwoMinutes", "c: k of n": "KOfN"}),
)


def fetch(port: int, path: str) -> Any:
    """The JSON answer of a server on the loopback of this namespace; None without one."""
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=ASK_SECONDS)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return json.loads(body) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        return None


class Prometheus:
    """A server on ``place``, on its loopback. ``start`` it before anything else."""

    def __init__(self, setting: Setting, place: Host, port: int, targets: Mapping[str, str], directory: Path) -> None:
        self.setting = setting
        self.data = directory / "data"
        self._place, self._port = place, port
        self._log = directory / "log"
        self._child: Child | None = None
        directory.mkdir()
        config = directory / "prometheus.yml"
        config.write_text(json.dumps(_configuration(setting, targets)))  # JSON is YAML
        self._command = [
            str(shutil.which("prometheus")), f"--config.file={config}", f"--storage.tsdb.path={self.data}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._child is not None
        return self._child.pid

    def start(self) -> None:
        """Start it, with its existing database."""
        with self._log.open("ab") as log, self._place.inside():
            self._child = Child(f"Prometheus {self.setting.name}", self._command, stdout=log, stderr=log)

    def stop(self) -> None:
        """End it as in a crash; calling it again is harmless."""
        if self._child is not None:
            self._child.kill()

    def ask(self) -> dict[str, dict[str, Answer]]:
        """Its current answers, by column."""
        hosts, vms = self._query(_HOSTS), self._query(_VMS)
        alerts = ((fetch(self._port, "/api/v1/alerts") or {}).get("data") or {}).get("alerts", [])
        return {column: of_prometheus(hosts, vms, alerts, name) for column, name in self.setting.alerts.items()}

    def _query(self, expression: str) -> list[dict[str, Any]]:
        found = fetch(self._port, f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        return list(found["data"]["result"]) if found else []


def _configuration(setting: Setting, targets: Mapping[str, str]) -> dict[str, Any]:
    every = f"{setting.interval}s"
    jobs = [
        {
            "job_name": job,
            "static_configs": [
                {"targets": [f"{address}:{port}"], "labels": {"instance": host}} for host, address in targets.items()
            ],
        }
        for job, port in (("node", NODE_PORT), ("process", PROCESS_PORT))
    ]
    return {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(RULES / setting.rules)],
        "scrape_configs": jobs,
    }
