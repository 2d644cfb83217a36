"""The row ``changes``: what operators do to a pipeline, while a hundred emulated hosts make 50,500 samples a second.

Each step is a playbook, or the reboot of a host, on four hosts of which one is spare; after it the books of all hosts
are read. A host without power loses what lay in its memory: a gap of unknown size of its own samples (``gaps``). The
password of probes is not exchanged here, as the emulated hosts could not be told: tests/deploy/test_site.py does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from acquisition.link.credentials import Credentials, ours
from acquisition.shards import grants
from experiments.deployment import scene
from experiments.emulation.workload import Workload
from experiments.hosts.site import NAMES, PARTS, ROOT, Site, changed, whole
from experiments.processes.control import Child, python

SPARE = "node4"
WORKLOAD = Workload(hosts=100, entities=101, metrics=5)
_PATIENCE = 120.0  #: seconds until all is well again after a step
_ON_ITS_WAY = 3.0  #: seconds of what is made
_PARTS = ["filter", "serve", "archive", "reader", "observer", "replication"]  #: the emulated hosts keep their password
_TOUCHED = Path("acquisition") / "__init__.py"


def measure(_given: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """The row. Raises ShardpulseError."""
    with scene.bare(directory, [*NAMES, SPARE], installed=True) as site:
        scene.played(site, "site.yml", inventory=inventory(site, NAMES))
        with sending(site):
            steps = [_told(_step(site, name, act)) for name, act in _steps(site, directory).items()]
    return {"hosts": WORKLOAD.hosts, "entities": WORKLOAD.entities, "metrics": WORKLOAD.metrics, "steps": steps}


def inventory(site: Site, shards: list[str], **variables: Any) -> dict[str, Any]:
    """With these hosts in the group shards, and no host that has no power."""
    made = site.inventory(**variables) | {"shards": {"hosts": {name: {} for name in shards}}}
    running = [name for name, host in site.hosts.items() if host.running]
    for group in set(made) - {"all"}:
        made[group] = {"hosts": {name: {} for name in made[group]["hosts"] if name in running}}
    made["all"] |= {"hosts": {name: made["all"]["hosts"][name] for name in running}}
    return made


def missed(row: Mapping[str, Any]) -> list[str]:
    """Which goals it misses, in words."""
    return [f"{step['step']}: {step['lost']} samples lost" for step in row["steps"] if step["lost"]] + [
        f"{step['step']}: all was not well again within {_PATIENCE:g} s" for step in row["steps"] if not step["well"]
    ]


def text(row: Mapping[str, Any]) -> list[str]:
    """For people."""
    return ["step         seconds  samples/s  lost  well"] + [
        f"{step['step']:<12} {step['seconds']:7.1f} {step['samples_per_second']:10,} {step['lost']:5}  {step['well']}"
        for step in row["steps"]
    ]


def _steps(site: Site, directory: Path) -> dict[str, Callable[[], Mapping[str, int]]]:
    """What is done, in this order; each answers how much it changed the hosts."""
    last = NAMES[-1]
    address = site.hosts[last].address

    def reboot() -> Mapping[str, int]:
        site.hosts[SPARE].reboot()
        return {}

    def die() -> Mapping[str, int]:
        site.hosts[last].kill()
        _until(lambda: _owners(site) <= set(NAMES) - {last})
        return {}

    def play(book: str, shards: list[str], **variables: Any) -> Mapping[str, int]:
        done = scene.played(site, book, "-e", json.dumps(variables), inventory=inventory(site, shards)).done
        return changed(done)

    def upgrade() -> Mapping[str, int]:
        wheels = _another_build(directory / "next")
        return play("upgrade.yml", now, controller_wheelhouse=str(wheels), redis_shard_connections=600)

    now = [*NAMES[:-1], SPARE]
    return {
        "rotate": lambda: play("rotate.yml", NAMES, controller_rotated=_PARTS),
        "grow": lambda: play("grow.yml", [*NAMES, SPARE]),
        "drain": lambda: play("drain.yml", [*NAMES, SPARE], drained=SPARE),
        "power cut": die,
        "replace": lambda: play("replace.yml", now, dead=address),
        "upgrade": upgrade,
        "reboot": reboot,
    }


def _step(site: Site, name: str, act: Callable[[], Mapping[str, int]]) -> dict[str, Any]:
    """Do it, wait until all is well, and read the books."""
    began, before = time.monotonic(), _books(site)["made"]
    did = act()
    seconds = time.monotonic() - began
    well = _until(lambda: _well(site))
    whole_seconds, books = time.monotonic() - began, _books(site)
    return {
        "step": name, "seconds": round(seconds, 1), "until_well_seconds": round(whole_seconds, 1), "changed": dict(did),
        "samples_per_second": round((books["made"] - before) / whole_seconds), "well": well, **books,
    }  # fmt: skip


def _told(step: dict[str, Any]) -> dict[str, Any]:
    """The step; progress for people, on stderr."""
    end = f"well after {step['until_well_seconds']:.0f} s" if step["well"] else "NOT WELL"
    print(f"{step['step']}: {step['seconds']:.0f} s, {end}, lost {step['lost']}", file=sys.stderr, flush=True)
    return step


@contextlib.contextmanager
def sending(site: Site) -> Iterator[Child]:
    """The emulated hosts, sending."""
    secrets = site.directory / "secrets"
    password = (secrets / "passwords" / grants.PROBE).read_text().strip()
    task = {
        "workload": WORKLOAD._asdict(), "hosts": (0, WORKLOAD.hosts), "lean": False, "checked": [],
        "shards": [f"{site.hosts[name].address}:7600" for name in NAMES], "outstanding": 0, "held_frames": 600,
        "held_seconds": 600.0, "position_interval": 1.0, "drain_seconds": 120.0, "joining": 0, "old_seconds": 1e9,
        "credentials": Credentials(grants.PROBE, password, ours(), str(secrets / "shards" / "ca.pem")),
        "profile": None,
    }  # fmt: skip
    with Child("generator", python("experiments.emulation.generator")) as generator:
        generator.send(task)
        generator.receive(60)
        generator.send({"do": "start"})
        yield generator


def _another_build(directory: Path) -> Path:
    """A wheelhouse of this checkout, whose product is another by one line. Raises CannotCreateError."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file() and not name.startswith(("docs/", "experiments/", "tests/")):
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, directory / name)
    with (directory / _TOUCHED).open("a") as file:
        file.write("\n# another build\n")
    git = ["git", "-c", "user.name=experiment", "-c", "user.email=experiment@example.org", "-C", str(directory)]
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "another build"]):
        subprocess.run([*git, *words], check=True)
    wheels = directory.with_name("next-wheels")
    made = whole([str(directory / "deploy" / "build"), "wheelhouse", "--extra", PARTS, "--out", str(wheels)], directory)
    if made.returncode:
        raise scene.PlaybookFailed(f"deploy/build: {made.stderr[-2000:]}")
    return wheels


def _books(site: Site) -> dict[str, int]:
    """The account of all samples."""
    books = json.loads(site.shows("observer", "status", "--json").stdout)["books"]
    return {name: int(books[name]) for name in ("made", "lost", "pending", "gaps")}


def _well(site: Site) -> bool:
    """All shards tell their books, which balance, and what is pending is what is on its way."""
    books = json.loads(site.shows("observer", "status", "--json").stdout or "{}").get("books") or {}
    flow = WORKLOAD.hosts * WORKLOAD.samples_per_frame / WORKLOAD.interval
    return bool(books) and books["balanced"] and not books["unreadable"] and books["pending"] < _ON_ITS_WAY * flow


def _owners(site: Site) -> set[str]:
    """Who has a master with partitions."""
    first = f"{site.hosts[NAMES[0]].address}:7600"
    done = site.shows("operator", "shards", "status", "--json", "--addresses", first)
    rows = json.loads(done.stdout)["shards"] if done.stdout else []
    names = {host.address: name for name, host in site.hosts.items()}
    return {names[row["address"].split(":")[0]] for row in rows if row["slots"]} or set(site.hosts)


def _until(condition: Callable[[], bool]) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.5)
    return False
