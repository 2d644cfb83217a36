"""TLS on the cluster bus of local shards, over which nodes tell each other who owns what.

The bus knows no users: whoever reaches its port may call himself a node and take slots. With TLS it talks only to
holders of a certificate of its own authority; here that is one self-signed certificate with its key, made for these
shards, in files that nobody else may read. MIGRATE and replication then speak TLS too, at a port that only such holders
may use; clients go on without, for loopback does not leave the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from acquisition.errors import CannotCreateError
from acquisition.link.resp import Address
from acquisition.shards import configuration, machine, redis_binary
from acquisition.shards.redis_binary import RedisBinary

CERTIFICATE, KEY = "bus.pem", "bus.key"  #: in the state directory
_OLDEST = (7, 0)  #: cluster-port, without which the bus of a server without a TLS port has none
_REQUEST = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_SUBJECT = "/CN=shardpulse cluster bus"
_NODES = "nodes.conf"  #: where a server keeps who its members are
_DAYS = "36500"  #: longer than any shard runs: it is made anew at each start of all of them
_SECONDS = 20.0
#: What to say where there is none.
OPEN = (
    "the cluster bus has no TLS (that takes a redis-server 7 built with it, and openssl): whoever can log in to this "
    "machine can take the shards over, so use it alone"
)


def write(directory: Path, redis: RedisBinary) -> None:
    """Make certificate and key; neither where the server or this machine cannot: without TLS, or without openssl.

    Raises CannotCreateError where both are there and it fails all the same: what can be closed is not left open.
    """
    openssl = shutil.which("openssl")
    try:
        if openssl is None or redis.release < _OLDEST or not redis_binary.has_tls(redis.path):
            return
        (directory / KEY).unlink(missing_ok=True)
        os.close(os.open(directory / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # openssl keeps the mode
        files = ["-keyout", str(directory / KEY), "-out", str(directory / CERTIFICATE)]
        made = subprocess.run(
            [openssl, *_REQUEST, "-subj", _SUBJECT, "-days", _DAYS, *files],
            capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
        failed = made.returncode != 0 and (made.stderr.strip() or f"openssl ended with {made.returncode}")
    except (OSError, subprocess.TimeoutExpired) as error:
        failed = str(error)
    if failed:
        remove(directory)
        raise CannotCreateError(f"no certificate for the cluster bus can be made in {directory}: {failed}")


def remove(directory: Path) -> None:
    """Remove both files; they may be gone already."""
    for name in (CERTIFICATE, KEY):
        (directory / name).unlink(missing_ok=True)


def is_secured(directory: Path) -> bool:
    """Whether the shards whose state lies in ``directory`` have TLS on their bus."""
    return (directory / CERTIFICATE).exists()


def directives(directory: Path, address: Address) -> dict[str, str]:
    """What the configuration of the server at ``address`` says of its bus.

    Replicas go to their masters' TLS ports, so that nobody who squats the port of a dead master is told a password or
    believed; a client without TLS is told the ports without.
    """
    certificate = str(directory / CERTIFICATE)
    return {
        "tls-port": str(machine.free_tls_port(address.host)),
        "cluster-port": str(address.port + machine.BUS_OFFSET),
        **configuration.tls(certificate, str(directory / KEY), certificate),
    }


def tell_client_ports(home: Path) -> None:
    """Before a server starts again: its list of members holds TLS ports, which it would tell clients until it has heard
    of each member (tried: for 70 ms)."""
    with contextlib.suppress(OSError):  # it has never run
        file = home / _NODES
        told = re.sub(r":\d+@(\d+)", lambda bus: f":{int(bus[1]) - machine.BUS_OFFSET}@{bus[1]}", file.read_text())
        file.write_text(told)
