"""Hostile local user: a program started by root that becomes nobody.

``python neighbour.py try TASK`` does what it can to what is named in TASK and prints what worked, as a JSON list;
``python neighbour.py squat TASK`` listens where shards did, and prints who came (``came PORT``) and what was said to
it (``heard PORT HEX``). TASK is a JSON object of ``Task``.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  sockets look for it, and nobody may not read where Python lies
import json
import os
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Iterator
from typing import NamedTuple

UID = 65534
#: What a stranger would like a shard to do; passwords are guessed as well.
COMMANDS = [
    "PING", "INFO", "GET layout:{0.61}", "SCAN 0", "SET x y", "XADD raw:{0} * a b", "XREAD STREAMS raw:{0} 0",
    "FLUSHALL", "CONFIG GET *", "CONFIG SET dir /tmp", "CONFIG SET dbfilename x.so", "CONFIG SET maxmemory 1",
    "CONFIG SET masterauth x", "SAVE", "BGSAVE", "MODULE LOAD /tmp/x.so", "MODULE LIST", "DEBUG SLEEP 0", "ACL LIST",
    "ACL SETUSER default on nopass +@all ~*", "CLIENT LIST", "CLIENT KILL TYPE normal", "MONITOR", "SUBSCRIBE x",
    "EVAL return(1) 0", "REPLICAOF 127.0.0.1 1", "PSYNC ? -1", "SYNC", "REPLCONF listening-port 1",
    "CLUSTER NODES", "CLUSTER SLOTS", "CLUSTER MEET 127.0.0.1 1", "CLUSTER RESET HARD", "CLUSTER SETSLOT 1 STABLE",
    "CLUSTER DELSLOTS 1", "CLUSTER FAILOVER TAKEOVER", "MIGRATE 127.0.0.1 1 x 0 10", "RESTORE x 0 y",
    "RESTORE-ASKING x 0 y", "DEL x", "SHUTDOWN NOSAVE",
]  # fmt: skip
GUESSES = [
    "AUTH x",
    "AUTH default x",
    "AUTH shardpulse shardpulse",
    "AUTH shardpulse-admin x",
    "AUTH shardpulse-replica x",
]
_CLUSTER_BUS_MEET = struct.pack(">4sIHHH", b"RCmb", 2256, 1, 0, 2).ljust(2256, b"\0")
_REFUSED = (b"-NOAUTH", b"-WRONGPASS", b"-ERR MODULE command not allowed", b"-ERR DEBUG command not allowed")
_TIMEOUT = 10.0


class Task(NamedTuple):
    """Ports that speak RESP, TLS ports and bus ports with TLS; files, directories and processes; a certificate."""

    ports: list[int]
    tls_ports: list[int] = []  # noqa: RUF012  a NamedTuple's defaults are never changed
    bus_ports: list[int] = []  # noqa: RUF012
    files: list[str] = []  # noqa: RUF012
    directories: list[str] = []  # noqa: RUF012
    pids: list[int] = []  # noqa: RUF012
    certificate: str = ""


def attempts(task: Task) -> Iterator[str]:
    """What worked."""
    for port in task.ports:
        for command in [*COMMANDS, *GUESSES]:
            answer = ask(port, command)
            if answer and not answer.startswith(_REFUSED):
                yield f"{command} at {port}: {answer[:60]!r}"
    for port in [*task.tls_ports, *task.bus_ports]:
        yield from (f"{manner} at {port}" for manner in shake_hands(port, task.certificate))
    for path in [*task.files, *(f"/proc/{pid}/{name}" for pid in task.pids for name in ("environ", "mem", "maps"))]:
        for flags, what in ((os.O_RDONLY, "reads"), (os.O_WRONLY, "writes")):
            with contextlib.suppress(OSError):
                os.close(os.open(path, flags))
                yield f"{what} {path}"
        with contextlib.suppress(OSError):
            os.unlink(path)
            yield f"removes {path}"
    for directory in [*task.directories, *(f"/proc/{pid}/fd" for pid in task.pids)]:
        with contextlib.suppress(OSError):
            yield f"lists {directory}: {os.listdir(directory)}"
        with contextlib.suppress(OSError):
            os.close(os.open(f"{directory}/shards.json.part", os.O_WRONLY | os.O_CREAT))
            yield f"makes files in {directory}"
    for pid in task.pids:
        with contextlib.suppress(OSError):
            os.kill(pid, 0)
            yield f"may signal {pid}"


def ask(port: int, command: str) -> bytes:
    """What a server answers to a command on a connection of its own; nothing when it hangs up or is gone."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as connection:
        connection.sendall(command.encode() + b"\r\n")
        return connection.recv(4096)
    return b""


def shake_hands(port: int, certificate: str) -> Iterator[str]:
    """Which ways of speaking TLS, or none at all, are answered with more than a refusal."""
    for manner in ("plain", "no certificate", "own certificate"):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as plain:
            if manner == "plain":
                plain.sendall(_CLUSTER_BUS_MEET + b"\r\nPING\r\n")
                answer = plain.recv(4096)
            else:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                if manner == "own certificate":
                    context.load_cert_chain(certificate)
                with context.wrap_socket(plain) as secured:
                    secured.sendall(_CLUSTER_BUS_MEET + b"\r\nPING\r\n")
                    answer = secured.recv(4096)
            if answer and answer[:1] != b"\x15":  # an alert of TLS
                yield f"{manner}: {answer[:60]!r}"


def squat(task: Task) -> None:
    """Be a shard to whoever comes, until killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if task.certificate:
        context.load_cert_chain(task.certificate)
    for port in [*task.ports, *task.tls_ports, *task.bus_ports]:
        server = socket.create_server(("127.0.0.1", port), backlog=100)
        secured = port not in task.ports
        threading.Thread(target=_serve, args=(server, port, context if secured else None)).start()
    print("listens", flush=True)


def _serve(server: socket.socket, port: int, context: ssl.SSLContext | None) -> None:
    while True:
        accepted, _ = server.accept()
        print(f"came {port}", flush=True)
        threading.Thread(target=_talk, args=(accepted, port, context)).start()


def _talk(connection: socket.socket, port: int, context: ssl.SSLContext | None) -> None:
    with contextlib.suppress(OSError):
        connection.settimeout(60)
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        while data := connection.recv(4096):
            print(f"heard {port} {data.hex()}", flush=True)
            connection.sendall(b"+OK\r\n")
    connection.close()


def main() -> None:
    """Become nobody for good, then do harm."""
    task = Task(**json.loads(sys.argv[2]))
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    if sys.argv[1] == "squat":
        squat(task)
    else:
        print(json.dumps(list(attempts(task))))


if __name__ == "__main__":
    main()
