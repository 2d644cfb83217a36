"""Product of this checkout installed on a host as by an operator.

It is a wheel, the units of deploy/systemd, a shard that speaks TLS, a user and a password for each
part.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acquisition.link.resp import Address
from acquisition.shards.servers import grants, rendering
from experiments.hosts import Host
from experiments.hosts.site import PARTS as EXTRAS
from experiments.processes import access
from tests.support import ROOT
from tests.support.waiting import eventually

PARTS = ("probe", "filter", "serve", "archive")
PORT = 7600
ETC = "/etc/shardpulse"
_USERS = {"probe": grants.PROBE, "filter": grants.FILTER, "serve": grants.SERVE, "archive": grants.ARCHIVE}
_INSTALL = f"""
set -e
useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin shardpulse
systemctl disable --quiet --now redis-server
systemctl mask --quiet redis-server
python3 -m venv /opt/shardpulse
/opt/shardpulse/bin/pip install --quiet --no-index --no-compile --find-links /root/wheels 'shardpulse[{EXTRAS}]'
ln -s /opt/shardpulse/bin/shardpulse /usr/local/bin/shardpulse
"""


def configuration(user: str, address: Address, more: str = "") -> str:
    """A part's, where systemd lends it the password."""
    return (
        f'[host]\nname = "node1"\n[shards]\naddresses = ["{address}"]\nusername = "{user}"\n'
        f'password_file = "$CREDENTIALS_DIRECTORY/password"\ntls_ca = "{ETC}/ca.pem"\n'
        f'[probe]\ninterval_seconds = 0.5\n[probe.vms]\nenabled = false\n[serve]\nbind = "127.0.0.1:7700"\n{more}'
    )


class Installed:
    """A host on which shard and parts run; ``install`` makes one."""

    def __init__(self, host: Host, directory: Path) -> None:
        self.host = host
        self.address = Address(host.address, PORT)
        self._access = access.make(directory / "access")
        self._directory = directory

    def install(self, wheelhouse: Path) -> None:
        """The product, then the shard, which is a cluster of one; then all parts."""
        self.host.ssh("mkdir -p /root && tar -x -C /root", given=packed({"wheels": wheelhouse}))
        self.host.ssh(_INSTALL, seconds=600)
        self._place_shard()
        units = ROOT / "deploy" / "systemd"
        self.host.ssh(
            "tar -x --no-same-owner -C /etc/systemd/system", given=packed({f.name: f for f in units.glob("*.service")})
        )
        self.host.ssh(f"systemctl daemon-reload && systemctl enable --now shardpulse-shard@{PORT}")
        self._form()
        self.host.write(f"{ETC}/ca.pem", self._access.ca.read_bytes())
        for part in PARTS:
            user = _USERS[part]
            self.host.write(f"{ETC}/{part}.password", f"{self._access.passwords[user]}\n", "400")
            self.host.write(f"{ETC}/{part}.toml", configuration(user, self.address))
        self.host.ssh("systemctl enable --now " + " ".join(f"shardpulse-{part}" for part in PARTS), seconds=120)

    def property(self, part: str, name: str) -> str:
        """What systemd says of a part's unit."""
        return self.host.ssh(f"systemctl show --value --property={name} shardpulse-{part}").strip()

    def says(self, part: str, beginning: str) -> None:
        """Wait until the status text of a part begins so."""
        self.until(part, lambda: self.property(part, "StatusText").startswith(beginning))

    def until(self, part: str, condition: Callable[[], object]) -> None:
        """Wait for something of a part; if in vain, with what it has said."""
        eventually(
            condition,
            60,
            says=lambda: self.host.ssh(f"systemctl status --no-pager --full --lines=30 shardpulse-{part} || true"),
        )

    def change(self, part: str, lines: str) -> None:
        """A drop-in for a part's unit, until ``restore``; the part is started again with it."""
        self.host.write(f"/run/systemd/system/shardpulse-{part}.service.d/test.conf", f"[Service]\n{lines}\n")
        self.host.ssh(f"systemctl daemon-reload && systemctl restart shardpulse-{part}", seconds=120)

    def restore(self, part: str) -> None:
        """The part as it is shipped."""
        self.host.ssh(
            f"rm -rf /run/systemd/system/shardpulse-{part}.service.d && systemctl daemon-reload && "
            f"systemctl restart shardpulse-{part}",
            seconds=120,
        )

    def books(self) -> dict[str, Any]:
        """The account of all samples, as the observer sees it."""
        config = self._directory / "observer.toml"
        config.write_text(self._access.section(grants.OBSERVER, [self.address], "timeout_seconds = 20.0\n"))
        command = [sys.executable, "-m", "acquisition", "status", "--json", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)["books"]
        return found

    def _place_shard(self) -> None:
        """Files as ``shardpulse shards render`` prints them."""
        etc, data = f"{ETC}/shard-{PORT}", f"/var/lib/shardpulse-shard-{PORT}"
        server = rendering.Server(self.host.address, (self.host.address,), PORT, 0, 128 << 20, 500, etc, data, "redis")
        home = self._directory / "shard"
        home.mkdir()
        self._access.certify(home, [self.host.address])
        self._access.list_users(home)
        (home / "ca.pem").write_bytes(self._access.ca.read_bytes())
        (home / "redis.conf").write_text(rendering.configuration_of(server, self._access.passwords[grants.REPLICATION]))
        self.host.ssh(
            f"mkdir -p {etc} && tar -x --no-same-owner -C {etc} && chown -R root:redis {etc} && "
            f"chmod -R u=rwX,g=rX,o= {etc}",
            given=packed({file.name: file for file in home.iterdir()}),
        )
        self.host.write(
            f"/etc/systemd/system/shardpulse-shard@{PORT}.service.d/memory.conf",
            f"[Service]\nMemoryMax={server.memory}\n",
        )

    def _form(self) -> None:
        config = self._directory / "operator.toml"
        config.write_text(self._access.section(grants.OPERATOR, [self.address], "timeout_seconds = 20.0\n"))
        command = [sys.executable, "-m", "acquisition", "shards", "form", "--addresses", str(self.address)]
        done = subprocess.run([*command, "--config", str(config)], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr


def packed(files: dict[str, Path]) -> bytes:
    """A tar of files and directories by their names in it."""
    with io.BytesIO() as data:
        with tarfile.open(fileobj=data, mode="w") as tar:
            for name, path in files.items():
                tar.add(path, name)
        return data.getvalue()
