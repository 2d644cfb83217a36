"""Hosts with systemd, address and sshd on one bridge, up in seconds.

Their first process is systemd.

    with data_center(directory, ["node1", "node2"]) as hosts:
        hosts["node1"].ssh("systemctl is-system-running")

Each host is a set of namespaces over one Debian (``tree``), with its own disk in ``directory`` that survives power
cuts, its own cgroups with enforced limits, and its own key. Addresses are in 198.18.0.0/15 as in experiments.testbed,
which provides bridge and links, with their faults. Hosts share the machine's kernel: its clock, which none of them can
set; its settings, copied for each; and the page cache. After the block only the directory is left, and a killed process
leaves no more than that.

By hand: ``python -m tests.support.hosts up DIRECTORY --count 3``, in a checkout. Needs root, namespaces and
debootstrap: ``missing`` names what is lacking.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from experiments import testbed
from experiments.hosts import sources, tree
from experiments.hosts.host import CGROUPS, Host, HostError
from experiments.processes import debian
from experiments.testbed.network import Testbed

__all__ = ["Host", "HostError", "data_center", "missing"]

KEY = "key"  #: in the directory, beside known_hosts and ssh_config
_CARRIED = ("/etc/ssl/certs/ca-certificates.crt",)


def missing() -> str:
    """Why hosts are not possible here, and what to do about it; "" if they are."""
    return debian.missing("ssh", "ssh-keygen", "setpriv") or testbed.missing() or _missing_cgroups()


@contextmanager
def data_center(
    directory: Path,
    names: Sequence[str] = ("node1",),
    *,
    packages: Sequence[str] = (),
    internet: bool = False,
    suite: str = tree.SUITE,
    apart: Sequence[str] = (),
) -> Iterator[Mapping[str, Host]]:
    """Running hosts of a Debian ``suite`` by name, 1 to 20 of them, which can resolve each other's names. ``packages``
    of Debian are installed in all of them; with ``internet`` they reach the usual sources of packages, and nothing
    else. Hosts that are ``apart`` have their own copy of the Debian, so that they share no page of a file with others.
    ``directory`` must not itself be on an overlay. Call it in the main thread. Raises HostError, DebianError,
    CannotCreateError.
    """
    layers = tree.layers(packages, suite)
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    with Testbed(len(names)) as bed, contextlib.ExitStack() as stack:
        known = {name: place.address for name, place in zip(names, bed.hosts, strict=True)}
        if internet:
            known |= _open_sources(bed, stack)
        ssh = _prepare_ssh(directory, {name: known[name] for name in names})
        hosts = {}
        for name, place in zip(names, bed.hosts, strict=True):
            home = _prepare(directory, name, known)
            lower = [_copied(layer, home / "lower") for layer in layers] if name in apart else layers
            hosts[name] = host = Host(place, name, home, lower, ssh)
            stack.callback(host.kill)
            host.begin()
        for host in hosts.values():
            host.wait()
        yield hosts


def _copied(layer: Path, directory: Path) -> Path:
    """A layer of a host that is apart."""
    directory.mkdir(exist_ok=True)
    copy = directory / layer.name
    if not copy.exists():
        subprocess.run(["cp", "--archive", str(layer), str(copy)], check=True)
    return copy


def _open_sources(bed: Testbed, stack: contextlib.ExitStack) -> dict[str, str]:
    """Make the usual sources reachable; their addresses by name."""
    pairs = [(bed.add_address(2 + number), source) for number, source in enumerate(sources.usual())]
    stack.enter_context(sources.forwarding(pairs))
    return {source.name: address for address, source in pairs}


def _prepare(directory: Path, name: str, known: Mapping[str, str]) -> Path:
    """Prepare the disk of a host for its first start."""
    home = directory / name
    upper = home / "upper"
    for each in (upper / "etc" / "ssh", upper / "root" / ".ssh", home / "work", home / "root"):
        each.mkdir(parents=True, exist_ok=True)
    (upper / "root").chmod(0o700)
    (upper / "root" / ".ssh").chmod(0o700)
    (home / "console").touch()
    etc = upper / "etc"
    (etc / "hostname").write_text(f"{name}\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{known[each]} {each}\n" for each in known))
    if not (etc / "machine-id").exists():
        (etc / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
    (etc / "resolv.conf").write_text("# no name server: /etc/hosts knows everybody\n")
    for file in _CARRIED:
        if os.path.exists(file):
            target = upper / file.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    shutil.copyfile(directory / f"{name}.host_key", etc / "ssh" / "ssh_host_ed25519_key")
    (etc / "ssh" / "ssh_host_ed25519_key").chmod(0o600)
    shutil.copyfile(directory / f"{KEY}.pub", upper / "root" / ".ssh" / "authorized_keys")
    admin = upper / "home" / tree.ADMIN / ".ssh"
    admin.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(directory / f"{KEY}.pub", admin / "authorized_keys")
    for path in (admin.parent, admin, admin / "authorized_keys"):
        os.chown(path, tree.ADMIN_ID, tree.ADMIN_ID)
    return home


def _prepare_ssh(directory: Path, addresses: Mapping[str, str]) -> list[str]:
    """Keys of the hosts and of their admitted users; the ssh command that uses them."""
    for file in (KEY, *(f"{name}.host_key" for name in addresses)):
        if not (directory / file).exists():
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(directory / file)]
            subprocess.run(make, check=True)
    lines = [
        f"{name},{address} {(directory / f'{name}.host_key.pub').read_text()}" for name, address in addresses.items()
    ]
    (directory / "known_hosts").write_text("".join(lines))
    config = directory / "ssh_config"
    config.write_text(
        "".join(f"Host {name}\n  HostName {address}\n" for name, address in addresses.items())
        + f"Host *\n  User root\n  IdentityFile {directory / KEY}\n  IdentitiesOnly yes\n  BatchMode yes\n"
        f"  UserKnownHostsFile {directory / 'known_hosts'}\n  StrictHostKeyChecking yes\n  ConnectTimeout 5\n"
        "  LogLevel ERROR\n"
    )
    return ["ssh", "-F", str(config)]


def _missing_cgroups() -> str:
    hybrid = all((CGROUPS / name / "cgroup.procs").exists() for name in ("systemd", "unified"))
    if not (CGROUPS / "cgroup.procs").exists() and not hybrid:
        return "no cgroups that a systemd can have a part of in /sys/fs/cgroup (docker run: --cgroupns=host -v …:rw)"
    places = [each.parent for each in CGROUPS.glob("*/cgroup.procs") if hybrid] or [CGROUPS]
    for place in places:
        trial = place / f"shardpulse-{uuid.uuid4().hex[:12]}"
        try:
            trial.mkdir()
        except OSError as error:
            return f"no cgroup can be made: {error}"
        trial.rmdir()
    return ""
