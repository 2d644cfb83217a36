"""Rendered files of ``deploy/render.yml``, and a bare Jinja loop over templates.

The templates are those of a watched machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT

DEPLOY = ROOT / "deploy"
_BIN = Path(sys.executable).parent
_ADDRESSES = [f"198.51.100.{number}:{port}" for number in range(1, 7) for port in range(7600, 7604)]


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
