"""Deployed site: three hosts with systemd, set up by the playbooks.

See experiments.hosts.site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from acquisition.certificates import files, making
from acquisition.link.trust.credentials import Credentials, ours
from acquisition.shards.servers import grants
from experiments.emulation.workload import Workload
from experiments.hosts.site import BIN, DEPLOY, NAMES, VARIABLES, Site, build_wheels, changed, said
from experiments.processes.control import Child, python
from tests.support.hosts.demanded import hosts_for_a_test

__all__ = [
    "BIN", "DEPLOY", "NAMES", "SITE_PACKAGES", "SPARE", "VARIABLES", "Site", "build_wheels", "changed", "inventory",
    "said", "sending", "three_hosts",
]  # fmt: skip

SITE_PACKAGES = ["redis-server"]
SPARE = "node4"
WORKLOAD = Workload(hosts=100, entities=101, metrics=5)


@contextmanager
def three_hosts(directory: Path, spare: Sequence[str] = ()) -> Iterator[Site]:
    """Three hosts on which ``site.yml`` has run once, and ``spare`` ones that are bare; ``directory`` is empty."""
    (directory / "inventory").mkdir()
    build_wheels(directory / "inventory" / "wheels")
    with hosts_for_a_test(directory / "hosts", [*NAMES, *spare], packages=SITE_PACKAGES) as hosts:
        made_of = Site(hosts, directory / "inventory")
        done = made_of.play("site.yml")
        assert done.returncode == 0, said(done, hosts)
        yield made_of


def inventory(site: Site, shards: list[str], **variables: Any) -> dict[str, Any]:
    """With these hosts in the group shards, and no host that has no power."""
    made = site.inventory(**variables) | {"shards": {"hosts": {name: {} for name in shards}}}
    running = [name for name, host in site.hosts.items() if host.running]
    for group in set(made) - {"all"}:
        made[group] = {"hosts": {name: {} for name in made[group]["hosts"] if name in running}}
    made["all"] |= {"hosts": {name: made["all"]["hosts"][name] for name in running}}
    return made


@contextmanager
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


def expired_pair(authority: Path, address: str) -> dict[str, str]:
    """Let the certificate that an authority of the controller has issued for ``address`` be one that is over; what its
    files hold, by their endings."""
    long_ago = datetime.now(UTC).replace(microsecond=0) - timedelta(days=25)
    for ending in ("pem", "key"):
        (authority / "issued" / f"{address}.{ending}").unlink(missing_ok=True)
    made = files.write(making.issue(files.read(authority), [address], long_ago, 20), authority / "issued", address)
    return {path.suffix.removeprefix("."): path.read_text() for path in made}
