"""``python -m experiments.rendering``: what it costs the controller to render the files of many hosts.

``deploy/render.yml`` renders the generated inventory, ``--hosts`` watched machines (no host is asked for anything), and
beside it a bare loop of Jinja renders a watched machine's templates: seconds by the clock and of CPU, the loop's, how
many times as much CPU Ansible takes, and the load average, by which clocks are to be judged. It fails above
``MOST_SECONDS`` for a thousand hosts, and for other numbers in proportion.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from experiments.harness import outcome
from experiments.processes.program import program

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
MOST_SECONDS = 60.0  #: for a thousand hosts, on two cores
_EXAMPLES = "examples:\n  python -m experiments.rendering --hosts 100"
_BIN = Path(sys.executable).parent
_ADDRESSES = [f"198.51.100.{number}:{port}" for number in range(1, 7) for port in range(7600, 7604)]


@program("rendering")
def main(argv: list[str]) -> int:
    """Measure and print."""
    parser = outcome.parser("rendering", __doc__ or "", _EXAMPLES)
    parser.add_argument("--hosts", type=int, default=1000, metavar="N", help="watched machines (default: 1000)")
    given = parser.parse_args(argv)
    outcome.require_positive(given, "hosts")
    with tempfile.TemporaryDirectory() as place:
        figures = measure(given.hosts, Path(place))
    return outcome.conclude(outcome.document("rendering", argv, [], figures, missed(figures)), given, _text)


def missed(figures: Mapping[str, Any]) -> list[str]:
    """The goal, if it is missed, in words."""
    most = MOST_SECONDS * max(figures["hosts"], 100) / 1000
    return [f"{figures['seconds']:g} s, more than {most:g}"] if figures["seconds"] > most else []


def _text(found: Mapping[str, Any]) -> list[str]:
    return [
        f"{found['hosts']} hosts, {found['files']} files: {found['seconds']:.1f} s, {found['cpu_seconds']:.1f} s of "
        f"CPU; secrets before, once: {found['first_seconds']:.1f} s",
        f"a bare loop: {found['bare_seconds']:.2f} s, {found['bare_cpu_seconds']:.2f} s of CPU "
        f"({found['times_bare']} times less); load average {found['load_average']:.1f}",
    ]


def measure(hosts: int, place: Path) -> dict[str, Any]:
    """Render everything below ``place`` in both ways."""
    with timed() as secrets:  # authorities, certificates and passwords are made once in the life of an inventory
        render(place, 1)
    with timed() as ansible:
        files = render(place, hosts)
    with timed() as loop:
        bare(place / "bare", hosts)
    return {
        "hosts": hosts, "files": files, "seconds": ansible["seconds"], "cpu_seconds": ansible["cpu_seconds"],
        "first_seconds": secrets["seconds"], "bare_seconds": loop["seconds"], "bare_cpu_seconds": loop["cpu_seconds"],
        "times_bare": round(ansible["cpu_seconds"] / max(loop["cpu_seconds"], 0.01)),
        "load_average": os.getloadavg()[0],
    }  # fmt: skip


@contextlib.contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Seconds by the clock and of CPU, of this process and of its children that have ended."""
    found: dict[str, float] = {}
    began, before = time.monotonic(), _used()
    yield found
    found |= {"seconds": round(time.monotonic() - began, 2), "cpu_seconds": round(_used() - before, 2)}


def render(place: Path, hosts: int) -> int:
    """Files that ``render.yml`` writes for the machines of the generated inventory and ``hosts`` watched ones. Raises
    RuntimeError with what it said."""
    out = place / f"rendered-{hosts}"
    render_inventory(DEPLOY / "inventories" / "hundred.py", place, out, {"SHARDPULSE_WATCHED": str(hosts)})
    return sum(path.is_file() for path in out.rglob("*"))


def render_inventory(
    inventory: Path, place: Path, out: Path, told: dict[str, str] | None = None, limit: str = ""
) -> None:
    """Let ``render.yml`` write the files of the hosts of ``inventory``, a program that is ``told`` some environment or
    a file, into ``out``, or of those only that ``limit`` names; secrets are in ``place``. Raises RuntimeError with
    what it said."""
    command = [
        str(_BIN / "ansible-playbook"), "-i", str(inventory), "render.yml", *(["--limit", limit] if limit else []),
        "-e", json.dumps({"rendered_to": str(out), "controller_secrets": str(place / "secrets"),
                          "controller_command": str(_BIN / "shardpulse")}),
    ]  # fmt: skip
    environment = os.environ | {"ANSIBLE_HOME": str(place), "ANSIBLE_NOCOLOR": "1"} | (told or {})
    environment["PATH"] = f"{_BIN}:{os.environ['PATH']}"
    done = subprocess.run(
        command, check=False, cwd=DEPLOY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"render.yml ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def bare(out: Path, hosts: int) -> None:
    """The templates of a watched machine, rendered by a loop with all that Ansible would have to find out at hand."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(loader=FileSystemLoader(DEPLOY / "roles"), trim_blocks=True)
    environment.filters["to_json"] = json.dumps
    templates = {
        name: environment.get_template(path)
        for name, path in {
            "probe.toml": "probe/templates/probe.toml.j2",
            "role.conf": "probe/templates/role.conf.j2",
            "60-shardpulse.conf": "common/templates/sysctl.conf.j2",
        }.items()
    }
    known = {
        "hostvars": {"localhost": {"controller_plan": {"masters": _ADDRESSES, "replicas": []}}},
        "common_build": "probes", "common_parts": ["probes"], "probe_configuration": "",
        "common_sysctl": {"vm.overcommit_memory": 1, "net.core.somaxconn": 4096},
    }  # fmt: skip
    for number in range(hosts):
        place = out / f"host-{number:04}"
        place.mkdir(parents=True)
        for name, template in templates.items():
            (place / name).write_text(template.render(known, inventory_hostname=place.name))


def _used() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
