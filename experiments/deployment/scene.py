"""Scene of the rows: bare hosts, wheels of this checkout, an inventory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acquisition.errors import ShardpulseError, UnavailableError
from experiments import hosts as room
from experiments.deployment.watching import Watched, watched
from experiments.hosts.site import BIN, Site, build_wheels
from experiments.processes.debian import DebianError

PACKAGES = ("redis-server", "nftables", "python3-venv", "python3-apt")  #: of Debian, installed by the roles


class PlaybookFailed(ShardpulseError):
    """A playbook failed."""


def hosts_missing() -> str:
    """Why hosts with systemd are not possible; "" if they are."""
    reason = room.missing()
    return f"hosts with systemd: {reason}" if reason else ""


def ansible() -> str:
    """Path of the playbook program."""
    return "" if (BIN / "ansible-playbook").exists() else "there is no ansible-playbook: pip install ansible-core"


@contextmanager
def bare(
    directory: Path, names: Sequence[str], *, installed: bool, apart: Sequence[str] = (), internet: bool = False
) -> Iterator[Site]:
    """Running hosts without any deployment; ``installed``: with Debian's redis-server. Raises
    ShardpulseError."""
    inventory = directory / "inventory"
    inventory.mkdir(parents=True)
    build_wheels(inventory / "wheels", told={"TMPDIR": str(directory)})
    packages = ["redis-server"] if installed else []
    try:
        with room.data_center(directory / "hosts", names, packages=packages, apart=apart, internet=internet) as hosts:
            site = Site(hosts, inventory)
            try:
                yield site
            finally:
                site.hang_up()
    except DebianError as error:
        raise UnavailableError(str(error)) from error


def fetch(site: Site) -> None:
    """Put Debian's packages into the cache of each host, without installing them. Raises HostError."""
    words = "DEBIAN_FRONTEND=noninteractive apt-get --quiet"
    for host in site.hosts.values():
        host.ssh(f"{words} update", seconds=300)
        host.ssh(f"{words} --yes --no-install-recommends --download-only install {' '.join(PACKAGES)}", seconds=300)


def played(site: Site, book: str, *options: str, inventory: Any = None) -> Watched:
    """Run a playbook that must succeed. Raises PlaybookFailed with its output."""
    found = watched(site, book, *options, inventory=inventory)
    if found.done.returncode:
        raise PlaybookFailed(f"{book} ended with {found.done.returncode}: {found.done.stdout[-3000:]}")
    return found
