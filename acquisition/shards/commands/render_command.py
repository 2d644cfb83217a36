"""``shardpulse shards render``: print a file of a shard that systemd runs."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, UsageError
from acquisition.shards.servers import grants, machine, password_files, redis_binary, rendering

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PATH = re.compile(r"/[\w./-]*")


def render(options: argparse.Namespace, settings: config.Shards) -> int:
    """Print the configuration, the users file or the unit of a shard run by systemd: TLS 1.3 only, users with least
    privileges, default user off. Passwords are read from files in --passwords, named after their users; missing ones
    are created at random, with mode 0600. Nothing is started. ``machine`` prints the files of all shards of a machine
    as one line of JSON: ``unit`` (a systemd template in which %i is the port), ``users``, and ``configurations`` by
    port."""
    printed = {
        rendering.CONFIGURATION: _configuration, rendering.USERS: _users, rendering.UNIT: _unit,
        rendering.MACHINE: _machine,
    }[options.what]  # fmt: skip
    print(printed(options, settings), end="")
    return EXIT_OK


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``render``."""
    kinds = (rendering.CONFIGURATION, rendering.USERS, rendering.UNIT, rendering.MACHINE)
    parser.add_argument("what", choices=kinds, help="what to print")
    parser.add_argument("--announce", metavar="NAME", help="name or address in its certificate, verified by clients")
    parser.add_argument("--bind", action="append", metavar="ADDRESS", help="listening address (default: all)")
    parser.add_argument("--port", type=help_text.whole(1, 55535), default=machine.FIRST_PORT, metavar="P",
                        help="TLS port; the cluster bus uses this port + 10000 (default: "
                            f"{machine.FIRST_PORT})")  # fmt: skip
    parser.add_argument("--shard", type=_port_and_core, action="append", default=[], metavar="P:N",
                        help="for `machine`: port and core of each shard; its directories end in -P")  # fmt: skip
    parser.add_argument(
        "--core", type=help_text.whole(0, 4095), default=0, metavar="N", help="core to pin to (default: 0)"
    )
    parser.add_argument(
        "--maxmemory", type=help_text.whole(1 << 20, 1 << 60, " bytes"), metavar="BYTES",
        help="memory for data (default: [shards] maxmemory_bytes); each TLS connection takes a further 40 kB",
    )  # fmt: skip
    parser.add_argument("--connections", type=help_text.whole(100, 1_000_000), default=12_000, metavar="N",
                        help="maximum number of clients (default: 12000)")  # fmt: skip
    parser.add_argument(
        "--passwords", metavar="DIR", help="directory with a password file per user; missing files are created"
    )
    parser.add_argument("--host", action="append", default=[], metavar="HOST",
                        help="hosts with their own user probe@HOST, instead of one user for all probes")  # fmt: skip
    parser.add_argument("--etc", default="/etc/shardpulse/shard", metavar="DIR",
                        help="directory of its files on its machine (default: /etc/shardpulse/shard)")  # fmt: skip
    parser.add_argument("--data", default="/var/lib/shardpulse-shard", metavar="DIR",
                        help="working directory (default: /var/lib/shardpulse-shard)")  # fmt: skip
    parser.add_argument("--server", choices=redis_binary.NAMES, default="redis-server",
                        help="server program in /usr/bin (default: redis-server)")  # fmt: skip
    parser.add_argument("--tls-module", default="", metavar="FILE",
                        help="TLS module to load, if TLS is not built in")  # fmt: skip
    parser.add_argument("--user", metavar="USER", help="system user to run as (default: redis or valkey)")


def _configuration(options: argparse.Namespace, settings: config.Shards) -> str:
    server = _server(options, settings)
    (password,) = _passwords(options, [grants.REPLICATION]).values()
    return rendering.configuration_of(server, password)


def _users(options: argparse.Namespace, settings: config.Shards) -> str:
    for host in options.host:
        _check("--host", host, _NAME, "a host name")
    names = rendering.user_names(options.host)
    return rendering.users_of(
        _passwords(options, names), settings.partitions, password_files.coming(_place(options), names)
    )


def _unit(options: argparse.Namespace, settings: config.Shards) -> str:
    return rendering.unit_of(_server(options, settings))


def _machine(options: argparse.Namespace, settings: config.Shards) -> str:
    if not options.shard:
        raise UsageError("missing --shard: PORT:CORE of each shard of the machine")
    server = _server(options, settings)
    (password,) = _passwords(options, [grants.REPLICATION]).values()
    found = {
        "unit": rendering.template_of(server),
        "users": _users(options, settings),
        "configurations": {
            port: rendering.configuration_of(rendering.one_of(server, port, core), password)
            for port, core in options.shard
        },
    }
    return f"{json.dumps(found)}\n"


def _port_and_core(text: str) -> tuple[int, int]:
    port, _, core = text.partition(":")
    return help_text.whole(1, 55535, " for a port")(port), help_text.whole(0, 4095, " for a core")(core)


def _server(options: argparse.Namespace, settings: config.Shards) -> rendering.Server:
    maxmemory = options.maxmemory or settings.maxmemory_bytes
    if not options.announce:
        raise UsageError("missing --announce: the name or address in the shard's certificate")
    if not maxmemory:
        raise UsageError("missing --maxmemory, and [shards] maxmemory_bytes is 0")
    bind = tuple(options.bind or ("*", "-::*"))
    for option, text in (("--announce", options.announce), *(("--bind", one) for one in options.bind or ())):
        _check(option, text, re.compile(rf"{_NAME.pattern}|[0-9a-fA-F:.]+"), "a name or an address")
    for option, text in (("--etc", options.etc), ("--data", options.data), ("--tls-module", options.tls_module or "/")):
        _check(option, text, _PATH, "an absolute path without blanks")
    user = options.user or rendering.user_of(options.server)
    _check("--user", user, re.compile(r"[a-z_][a-z0-9_-]*"), "a system user name")
    return rendering.Server(
        options.announce, bind, options.port, options.core, maxmemory, options.connections, options.etc, options.data,
        user, options.server, options.tls_module,
    )  # fmt: skip


def _check(option: str, text: str, pattern: re.Pattern[str], what: str) -> None:
    """Refuse a value that would start another line in the rendered file."""
    if not pattern.fullmatch(text):
        raise UsageError(f"{option}: {text!r} is not {what}")


def _passwords(options: argparse.Namespace, users: list[str]) -> dict[str, str]:
    return password_files.of_all(_place(options), users)


def _place(options: argparse.Namespace) -> Path:
    if not options.passwords:
        raise UsageError("missing --passwords: a directory with a file for each user, created if necessary")
    return Path(options.passwords)
