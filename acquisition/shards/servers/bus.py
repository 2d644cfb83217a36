"""TLS on the cluster bus of local shards, over which nodes exchange slot owners.

The bus has no users: anyone who reaches its port may join as a node and take slots. With TLS it accepts only
holders of a certificate of its own authority; here that is one self-signed certificate with its key, made for these
shards, in files readable by this user alone. MIGRATE and replication then use TLS too, at a port that only such holders
may use; clients continue without it, since loopback traffic does not leave the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

from acquisition.errors import CannotCreateError, ShardError, UnavailableError
from acquisition.link.resp import Address
from acquisition.shards.servers import configuration, machine, readiness
from acquisition.shards.servers import process as shard_process
from acquisition.shards.servers.redis_binary import RedisBinary

CERTIFICATE, KEY = "bus.pem", "bus.key"  #: in the state directory
_REQUEST = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_SUBJECT = "/CN=shardpulse cluster bus"
_NODES = "nodes.conf"  #: a server's list of its members
_DAYS = "36500"  #: longer than any shard runs: it is recreated whenever all of them start
_SECONDS = 20.0
_TRIAL, _TRIAL_BYTES = "trial", 64 << 20  #: directory and memory of a server started to test its abilities
#: Module directories of distributions, from the directory above that of the program.
_MODULES = [f"{lib}/{maker}/**" for lib in ("lib*", "lib*/*") for maker in ("valkey", "redis")]


def write(directory: Path, redis: RedisBinary) -> RedisBinary:
    """Make certificate and key, and start the server with them once; returns the server, with its TLS module if needed.

    Raises UnavailableError if this machine or the server lacks TLS, with what to install; then there are no files.
    Raises CannotCreateError if openssl fails nevertheless: a bus that can be closed is not left open.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise UnavailableError("openssl not found: install it (Debian, Ubuntu: apt install openssl)")
    try:
        _make_certificate(openssl, directory)
        return redis._replace(tls_module=_module(directory, redis))
    except BaseException:
        remove(directory)
        raise


def _make_certificate(openssl: str, directory: Path) -> None:
    """Make certificate and key. Raises CannotCreateError."""
    files = ["-keyout", str(directory / KEY), "-out", str(directory / CERTIFICATE)]
    try:
        (directory / KEY).unlink(missing_ok=True)
        os.close(os.open(directory / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # openssl keeps the mode
        made = subprocess.run(
            [openssl, *_REQUEST, "-subj", _SUBJECT, "-days", _DAYS, *files],
            capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
        failed = made.returncode != 0 and (made.stderr.strip() or f"openssl ended with {made.returncode}")
    except (OSError, subprocess.TimeoutExpired) as error:
        failed = str(error)
    if failed:
        raise CannotCreateError(f"cannot create a certificate for the cluster bus in {directory}: {failed}")


def _module(directory: Path, redis: RedisBinary) -> str:
    """The module that provides TLS to the server, "" if it is built in. Raises UnavailableError.

    Found by trial: servers of any version know the directives even without TLS, and a module fits one build only.
    """
    lacks = []
    for module in ("", *modules(redis.path)):
        lack = _lack(directory, redis, module)
        if not lack:
            return module
        lacks.append(f"{module}: {lack}" if module else lack)
    raise UnavailableError(
        f"{redis.name} ({redis.path}) does not speak TLS ({'; '.join(lacks)}): install Redis 7 or newer, or Valkey, "
        "built with TLS (Debian, Ubuntu: apt install redis-server), or the TLS module of this build beside it"
    )


def modules(server: str) -> list[str]:
    """Candidates for the TLS module of a server: next to the program, where builds have it, then where
    distributions have it."""
    home = Path(server).resolve().parent
    places = [home.name, *_MODULES]
    return list(dict.fromkeys(str(file) for one in places for file in sorted(home.parent.glob(f"{one}/*tls*.so"))))


def _lack(directory: Path, redis: RedisBinary, module: str) -> str:
    """Why the server has no TLS with this module; "" if it has. Raises CannotCreateError."""
    address, core, home = Address("127.0.0.1", machine.free_ports(1)[0]), machine.cores()[0], directory / _TRIAL
    lines = directives(directory, address, module) | {"port": "0"}  # it has no users: only holders of the key get in
    shard_process.configure(redis, address, core, home, _TRIAL_BYTES, lines)
    shard, child = shard_process.launch(redis, address, core, home, tied=True)
    deadline = time.monotonic() + _SECONDS
    try:
        while not _speaks_tls(directory, Address(address.host, int(lines["tls-port"]))):
            readiness.check_alive([shard])
            if time.monotonic() > deadline:
                return "no reply"
            time.sleep(0.005)
    except ShardError:
        return shard_process.last_words(home).replace(f" {lines['tls-port']}", "")  # the port of this trial
    finally:
        shard_process.stop([shard], [child])
    return ""


def _speaks_tls(directory: Path, address: Address) -> bool:
    """Whether a server with our certificate answers its holders at ``address``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(directory / CERTIFICATE)
    context.load_cert_chain(directory / CERTIFICATE, directory / KEY)
    with (
        contextlib.suppress(OSError),
        socket.create_connection(address, _SECONDS) as plain,
        context.wrap_socket(plain) as secured,
    ):
        secured.sendall(b"PING\r\n")
        return secured.recv(16).startswith(b"+PONG")
    return False


def open_because(lack: str) -> str:
    """Text of a finding on a bus without TLS."""
    return f"the cluster bus has no TLS: any user of this machine can take over the shards: {lack}"


def remove(directory: Path) -> None:
    """Remove both files, and the leftovers of a killed trial; they may be gone already."""
    shutil.rmtree(directory / _TRIAL, ignore_errors=True)
    for name in (CERTIFICATE, KEY):
        (directory / name).unlink(missing_ok=True)


def is_secured(directory: Path) -> bool:
    """Whether the shards with their state in ``directory`` have TLS on their bus."""
    return (directory / CERTIFICATE).exists()


def directives(directory: Path, address: Address, module: str) -> dict[str, str]:
    """Directives for the bus of the server at ``address``; ``module`` provides TLS, "" if built in.

    Replicas connect to the TLS ports of their masters, so nobody who takes the port of a dead master gets a password
    or is trusted; a client without TLS is given the other ports.
    """
    certificate = str(directory / CERTIFICATE)
    return {
        **configuration.loading(module),
        "tls-port": str(machine.free_tls_port(address.host)),
        "cluster-port": str(address.port + machine.BUS_OFFSET),
        **configuration.tls(certificate, str(directory / KEY), certificate),
    }


def tell_client_ports(home: Path) -> None:
    """Call before a server starts again: its list of members contains TLS ports, which clients would get until it
    has contact with each member (measured: for 70 ms)."""
    with contextlib.suppress(OSError):  # it has never run
        file = home / _NODES
        corrected = re.sub(r":\d+@(\d+)", lambda bus: f":{int(bus[1]) - machine.BUS_OFFSET}@{bus[1]}", file.read_text())
        file.write_text(corrected)
