"""Rendering of the files of a shard run by systemd (pure).

They are its configuration, its users and its unit.

It speaks TLS 1.3 and nothing else, knows no default user, and is announced to its cluster and its clients by the name
in its certificate. Redis 7 or newer, or Valkey: 6.2 neither announces names nor knows users with selectors.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from acquisition.model.identity import host_id
from acquisition.shards.servers import configuration, grants, machine
from acquisition.shards.servers.redis_binary import NAMES
from acquisition.wire import keys

# -- What lets the unit of a shard wait before it starts a master whose replica has yet to take over (pure).
#
# Nothing is on disk, so a master comes back empty. Back within the node timeout it is taken for the one that it was,
# and its replicas copy its emptiness (design, decision 4). Whoever starts it may be too early: systemd after a crash,
# ``systemctl restart``, a machine that boots within seconds. So the unit itself waits, for a shard that was a master
# with slots and had a replica when it ended: its own list of members, ``nodes.conf``, says so. Everybody else starts
# at once: a new shard, a replica, a master that has handed over, one without a replica.

SECONDS = 15  #: longer than a replica takes to take over: node timeout (2 s) and election, about 4 s in all
#: As the shard's user, in no group of his, outside of the shard's sandbox, which lets no other program run. awk ends
#: with 0 where it waits; a line of nodes.conf is ``id address flags master … slot …``, as of CLUSTER NODES.
_DIRECTIVE = """\
ExecStartPre=+/usr/bin/setpriv --reuid={user} --regid=65534 --clear-groups --no-new-privs /bin/sh -c "\\
    if awk '$$3 ~ /myself/ && $$3 ~ /master/ && NF > 8 {{ own = $$1 }} $$3 ~ /slave/ {{ followed[$$4] }} \\
            END {{ exit !(own in followed) }}' {data}/nodes.conf 2>/dev/null; \\
    then echo it was a master with a replica, which shall take over first: it starts in {seconds} s; \\
         exec sleep {seconds}; fi"
"""


def directive(user: str, data: str) -> str:
    """The lines of a unit of systemd whose shard is ``user``'s and has ``nodes.conf`` in the directory ``data``."""
    return _DIRECTIVE.format(user=user, data=data, seconds=SECONDS)


RELEASE = (7, 0)
CONFIGURATION, USERS, UNIT, MACHINE = "configuration", "users", "unit", "machine"
CONNECTION_BYTES = (
    40_000  #: that a TLS connection takes beside ``maxmemory``: 30.8 kB idle, measured, and what waits in it
)
_RESERVE_BYTES = 64 << 20  #: the server itself, and what a replica is sent
#: A replica stays where it was placed, unless its master has more others: Redis would send one to a master that has
#: lost its own, whatever machine that is on, and counts one that was forgotten and came back by gossip as working.
_MANY_REPLICAS = 1_000
_START_SECONDS = SECONDS + 75  #: that a start may take, the wait included

_PROGRAMS = "/usr/bin"  #: where distributions have NAMES
#: As in deploy/systemd/shardpulse-shard@.service. A shard may pin its threads to a core, and ask for as many
#: descriptors as it has clients; it runs no program but itself.
HARDENING = """\
ProtectProc=invisible
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
NoExecPaths=/
ExecPaths={programs} /usr/lib /lib
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=sched_setaffinity setrlimit prlimit64
SystemCallErrorNumber=EPERM
UMask=0077
""".format(programs=" ".join(f"-{_PROGRAMS}/{name}" for name in NAMES))


class Server(NamedTuple):
    """One shard. ``announce`` is the name, or the address, in its certificate; ``etc`` holds the rendered files and
    ``shard.pem``, ``shard.key`` and ``ca.pem``, ``data`` is its directory for its list of members."""

    announce: str
    bind: tuple[str, ...]
    port: int
    core: int
    maxmemory: int
    connections: int
    etc: str
    data: str
    user: str
    program: str = "redis-server"  #: one of NAMES
    tls_module: str = ""  #: what the program loads to speak TLS; "" where that is built in

    @property
    def memory(self) -> int:
        """Memory that the process may take in all: fragments of what it holds, a quarter, and its connections."""
        return self.maxmemory + self.maxmemory // 4 + self.connections * CONNECTION_BYTES + _RESERVE_BYTES

    def file(self, name: str) -> str:
        """A file in ``etc``."""
        return str(PurePosixPath(self.etc, name))


def configuration_of(server: Server, password: str) -> str:
    """redis.conf; ``password`` is that of the user ``replication``."""
    return configuration.text(
        {
            "bind": " ".join(server.bind),
            "port": "0",
            "tls-port": str(server.port),
            "tls-protocols": '"TLSv1.3"',
            "tls-auth-clients": "no",  # they log in; on the bus a certificate is demanded all the same
            "cluster-port": str(server.port + machine.BUS_OFFSET),
            **_announced(server.announce),
            "cluster-migration-barrier": str(_MANY_REPLICAS),
            "maxclients": str(server.connections),
            "supervised": "auto",  # tells systemd when it is ready
            "logfile": '""',
            **configuration.loading(server.tls_module),
            **configuration.tls(server.file("shard.pem"), server.file("shard.key"), server.file("ca.pem")),
            **configuration.users(server.file("users.acl"), grants.REPLICATION, password),
            **configuration.shared(server.core, server.data, server.maxmemory, RELEASE),
        }
    )


def user_names(hosts: Iterable[str]) -> list[str]:
    """Whom a password is needed for: one for each part, of the probe one for each of ``hosts`` if any are named."""
    named = [f"{grants.PROBE}@{host}" for host in hosts]
    return [user for user in grants.USERS if not (named and user == grants.PROBE)] + named


def users_of(passwords: Mapping[str, str], partitions: int, coming: Mapping[str, str] | None = None) -> str:
    """The file of users, the same for every shard; ``coming`` are the passwords of a rotation that was begun.
    ``probe@HOST`` reaches that host's partition, and of it only its own status."""
    lines = [grants.NOBODY]
    for name, password in passwords.items():
        user, _, host = name.partition("@")
        also = (coming or {}).get(name, "")
        if host:
            number = host_id(host)
            tag = keys.tags(partitions)[keys.partition_of(number, partitions)]
            lines.append(grants.line(name, grants.USERS[user], password, tag, f"{number:016x}", also))
        else:
            lines.append(grants.line(name, grants.USERS[user], password, coming=also))
    return "".join(f"{line}\n" for line in lines)


def user_of(program: str) -> str:
    """The user of the system that the distribution's package of a server makes."""
    return program.removesuffix("-server")


def one_of(server: Server, port: int, core: int) -> Server:
    """A shard of a machine with several: like ``server``, in directories of its own, which end in its port."""
    return server._replace(port=port, core=core, etc=f"{server.etc}-{port}", data=f"{server.data}-{port}")


def template_of(server: Server) -> str:
    """The unit of every shard of a machine, as ``one_of`` has them: a template of systemd, of which %i is the port."""
    return _unit(server._replace(etc=f"{server.etc}-%i", data=f"{server.data}-%i"), "at port %i")


def unit_of(server: Server) -> str:
    """The unit of systemd. A master without persistence waits until a replica has taken over (``directive``)."""
    return _unit(server, f"{server.announce}:{server.port}")


def _unit(server: Server, name: str) -> str:
    return f"""\
[Unit]
Description=shardpulse shard {name}
Wants=network-online.target
After=network-online.target
ConditionPathExists={server.file("redis.conf")}
StartLimitIntervalSec=0

[Service]
Type=notify
User={server.user}
# Started within the node timeout a master comes back empty and empties its replica, which has to take over first.
{directive(server.user, server.data)}\
ExecStart={_PROGRAMS}/{server.program} {server.file("redis.conf")}
TimeoutStartSec={_START_SECONDS}
Restart=on-failure
RestartSec=2
LimitNOFILE={server.connections + 1024}
# maxmemory and a quarter of it for fragments, {CONNECTION_BYTES // 1000} kB for each TLS connection, the server itself
MemoryMax={server.memory}
OOMScoreAdjust=-900
{_directory(server.data)}
{HARDENING}
[Install]
WantedBy=multi-user.target
"""


def _directory(data: str) -> str:
    """systemd makes what lies in its usual place."""
    inside = data.removeprefix("/var/lib/")
    return f"ReadWritePaths={data}" if inside == data else f"StateDirectory={inside}\nStateDirectoryMode=0700"


def _announced(name: str) -> dict[str, str]:
    """The name by which clients and other shards find it: they verify this very name."""
    try:
        return {"cluster-announce-ip": str(ipaddress.ip_address(name)), "cluster-preferred-endpoint-type": "ip"}
    except ValueError:
        return {"cluster-announce-hostname": name, "cluster-preferred-endpoint-type": "hostname"}
