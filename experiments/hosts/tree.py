"""Debian trees that hosts start from, cached and read-only.

They are built once and kept in the user's cache.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from experiments.processes import debian
from experiments.processes.debian import DebianError

SUITE, NEXT_SUITE = "bookworm", "trixie"  #: Debian 12, and 13
PYTHON, NEXT_PYTHON = "3.11", "3.13"  #: in each of them
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-venv", "python3-apt", "sudo", "nftables",
    "iproute2", "procps", "ca-certificates",
)  # fmt: skip
ADMIN, ADMIN_ID = "admin", 1000  #: a user with all rights through sudo
#: Units of machines with their own consoles, devices and clocks, and unwanted ones.
_MASKED = (
    "console-getty.service", "getty@.service", "systemd-udevd.service", "systemd-udev-trigger.service",
    "systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service", "apt-daily.timer",
    "apt-daily-upgrade.timer",
)  # fmt: skip
#: Installs packages in an overlay tree, in its own namespaces, so that the mounts vanish with it.
_INSTALL = """
set -e
part=$1 lower=$2
shift 2
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$part,workdir=$part.work" "$part.root"
mount -t proc proc "$part.root/proc"
mount --rbind /dev "$part.root/dev"
cp /etc/resolv.conf /etc/hosts "$part.root/etc/"
printf '#!/bin/sh\\nexit 101\\n' > "$part.root/usr/sbin/policy-rc.d"
chmod 755 "$part.root/usr/sbin/policy-rc.d"
export DEBIAN_FRONTEND=noninteractive
chroot "$part.root" apt-get --quiet update
chroot "$part.root" apt-get --quiet --yes --no-install-recommends install "$@"
chroot "$part.root" apt-get clean
rm "$part.root/usr/sbin/policy-rc.d" "$part.root/etc/resolv.conf"
"""


def layers(packages: Sequence[str] = (), suite: str = SUITE) -> list[Path]:
    """Layers of a host's tree, the uppermost first: the Debian, and above it these packages if any.

    Raises DebianError.
    """

    def make(part: Path) -> None:
        _make(part, suite)

    base = debian.kept("host", [suite, PACKAGES, inspect.getsource(_make)], make)
    if not packages:
        return [base]
    wanted = sorted(packages)

    def install(part: Path) -> None:
        _install(part, base, wanted)

    return [debian.kept("host-packages", [base.name, wanted, _INSTALL], install), base]


def _make(part: Path, suite: str) -> None:
    debian.debootstrap(suite, PACKAGES, part)
    units = part / "etc" / "systemd" / "system"
    for unit in _MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    for key in (part / "etc" / "ssh").glob("ssh_host_*"):
        key.unlink()  # each host has its own
    (part / "etc" / "machine-id").unlink(missing_ok=True)
    commands = (
        ["useradd", f"--uid={ADMIN_ID}", "--create-home", "--shell", "/bin/bash", ADMIN],
        ["passwd", "--delete", ADMIN],
    )
    for command in commands:
        subprocess.run(["chroot", str(part), *command], check=True, capture_output=True)
    sudoers = part / "etc" / "sudoers.d" / ADMIN
    sudoers.write_text(f"{ADMIN} ALL=(ALL:ALL) NOPASSWD: ALL\n")
    sudoers.chmod(0o440)


def _install(part: Path, base: Path, packages: Sequence[str]) -> None:
    beside = [Path(f"{part}.{name}") for name in ("work", "root")]
    for directory in (part, *beside):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _INSTALL, "install", part, base,
         *packages],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    for directory in beside:
        shutil.rmtree(directory, ignore_errors=True)
    if done.returncode:
        raise DebianError(f"apt-get install {' '.join(packages)} failed: {(done.stdout + done.stderr)[-1000:]}")
    (part / "etc" / "hosts").unlink(missing_ok=True)
