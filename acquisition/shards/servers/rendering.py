"""Rendering of the files of a shard run by systemd (pure).

They are its configuration, its users and its unit.

It uses TLS 1.3 only, has no default user, and is announced to its cluster and its clients by the name
in its certificate. Redis 7 or newer, or Valkey: 6.2 neither announces names nor has users with selectors.
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

# -- Makes the unit of a shard wait before it starts a master whose replica has yet to take over (pure).
#
# Nothing is on disk, so a master comes back empty. Back within the node timeout it is taken for the former one,
# and its replicas copy its emptiness (design, decision 4). Any start may be too early: by systemd after a crash,
# by ``systemctl restart``, on a machine that boots within seconds. So the unit itself waits, if the shard was a master
# with slots and had a replica when it ended, according to its own list of members, ``nodes.conf``. All others start
# at once: a new shard, a replica, a master that has handed over, one without a replica.

SECONDS = 15  #: longer than a takeover by a replica: node timeout (2 s) and election, about 4 s in all
#: As the shard's user, without his groups, outside of the shard's sandbox, which lets no other program run. awk ends
#: with 0 if it waits; a line of nodes.conf is ``id address flags master … slot …``, as of CLUSTER NODES.
_DIRECTIVE = """\
ExecStartPre=+/usr/bin/setpriv --reuid={user} --regid=65534 --clear-groups --no-new-privs /bin/sh -c "\\
    if awk '$$3 ~ /myself/ && $$3 ~ /master/ && NF > 8 {{ own = $$1 }} $$3 ~ /slave/ {{ followed[$$4] }} \\
            END {{ exit !(own in followed) }}' {data}/nodes.conf 2>/dev/null; \\
    then echo it was a master with a replica, which shall take over first: it starts in {seconds} s; \\
         exec sleep {seconds}; fi"
"""


def directive(user: str, data: str) -> str:
    """Lines of a systemd unit for a shard of ``user`` with ``nodes.conf`` in the directory ``data``."""
    return _DIRECTIVE.format(user=user, data=data, seconds=SECONDS)


RELEASE = (7, 0)
CONFIGURATION, USERS, UNIT, MACHINE = "configuration", "users", "unit", "machine"
CONNECTION_BYTES = (
    40_000  #: for a TLS connection beside ``maxmemory``: 30.8 kB idle, measured, and the data pending in it
)
_RESERVE_BYTES = 64 << 20  #: for the server itself, and for data to a replica
#: A replica stays where it was placed, unless its master has more others: Redis would move one to a master that has
#: lost its own, on any machine, and counts a forgotten one that came back by gossip as working.
_MANY_REPLICAS = 1_000
_START_SECONDS = SECONDS + 75  #: limit for a start, the wait included

_PROGRAMS = "/usr/bin"  #: where distributions install NAMES
#: As in deploy/systemd/shardpulse-shard@.service. A shard may pin its threads to a core, and ask for as many
#: descriptors as it has clients; it runs no other program.
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
    """One shard. ``announce`` is the name or address in its certificate; ``etc`` holds the rendered files and
    ``shard.pem``, ``shard.key`` and ``ca.pem``; ``data`` is the directory for its list of members."""

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
    tls_module: str = ""  #: module needed by the program for TLS; "" if built in

    @property
    def memory(self) -> int:
        """Limit for all memory of the process: fragmentation of its data, a quarter, and its connections."""
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
            "tls-auth-clients": "no",  # they log in; on the bus a certificate is still required
            "cluster-port": str(server.port + machine.BUS_OFFSET),
            **_announced(server.announce),
            "cluster-migration-barrier": str(_MANY_REPLICAS),
            "maxclients": str(server.connections),
            "supervised": "auto",  # notifies systemd when ready
            "logfile": '""',
            **configuration.loading(server.tls_module),
            **configuration.tls(server.file("shard.pem"), server.file("shard.key"), server.file("ca.pem")),
            **configuration.users(server.file("users.acl"), grants.REPLICATION, password),
            **configuration.shared(server.core, server.data, server.maxmemory, RELEASE),
        }
    )


def user_names(hosts: Iterable[str]) -> list[str]:
    """Users that need a password: one for each part, and for the probe one for each of ``hosts`` if given."""
    named = [f"{grants.PROBE}@{host}" for host in hosts]
    return [user for user in grants.USERS if not (named and user == grants.PROBE)] + named


def users_of(passwords: Mapping[str, str], partitions: int, coming: Mapping[str, str] | None = None) -> str:
    """Users file, the same for every shard; ``coming`` are the passwords of a begun rotation.
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
    """System user created by the distribution's package of a server."""
    return program.removesuffix("-server")


def one_of(server: Server, port: int, core: int) -> Server:
    """A shard of a machine with several: like ``server``, in its own directories, which end in its port."""
    return server._replace(port=port, core=core, etc=f"{server.etc}-{port}", data=f"{server.data}-{port}")


def template_of(server: Server) -> str:
    """Unit of every shard of a machine, for ``one_of``: a systemd template in which %i is the port."""
    return _unit(server._replace(etc=f"{server.etc}-%i", data=f"{server.data}-%i"), "at port %i")


def unit_of(server: Server) -> str:
    """The systemd unit. A master without persistence waits until a replica has taken over (``directive``)."""
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
    """Let systemd create directories in its usual places."""
    inside = data.removeprefix("/var/lib/")
    return f"ReadWritePaths={data}" if inside == data else f"StateDirectory={inside}\nStateDirectoryMode=0700"


def _announced(name: str) -> dict[str, str]:
    """The name by which clients and other shards find it: they verify exactly this name."""
    try:
        return {"cluster-announce-ip": str(ipaddress.ip_address(name)), "cluster-preferred-endpoint-type": "ip"}
    except ValueError:
        return {"cluster-announce-hostname": name, "cluster-preferred-endpoint-type": "hostname"}
