"""``shardpulse shards up``, ``down``, ``status``: the shards of this machine.

Its state file names them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.config.settings import Shards as Settings
from acquisition.errors import EXIT_OK, EXIT_UNAVAILABLE, ShardpulseError
from acquisition.link import state_directory
from acquisition.link.layouts import raise_record_format, read_layout
from acquisition.shards.commands import growth_command, remote_command
from acquisition.shards.servers import bus, machine, resilience
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.launch import Shards, running, start_shards
from acquisition.shards.servers.status import ShardStatus
from acquisition.terminal import say
from acquisition.wire.records import record_format

_OLD_FORMAT = (
    f", not {record_format.NEWEST}: run `shardpulse shards upgrade` after all filters and readers were upgraded"
)
_PAIR = 2
_NO_MAJORITY = (
    "two shards have no majority without each other: if one dies, the other refuses all commands within "
    "seconds,\nuntil `shardpulse shards up` restarts it; three shards tolerate the loss of one"
)


def up(options: argparse.Namespace, settings: config.Shards) -> int:
    """Start the local shards, or report that they are running."""
    directory = endpoints.directory(settings)
    with state_directory.locked(directory):
        shards = _already_running(directory)
        if shards is not None:
            ignored = [name for name in ("count", "base_port", "cores", "replicas") if getattr(options, name)]
            told = f"; {', '.join(_option(name) for name in ignored)} ignored" if ignored else ""
            say(f"already running in {directory}{told}")
        else:
            count = options.count or settings.count
            if options.replicas is not None:
                settings = replace(settings, replicas=options.replicas)
            replicas, base = settings.replicas, options.base_port or settings.base_port
            machine.check_count(count * (1 + replicas), len(options.cores or machine.cores()))
            shards = start_shards(
                count,
                directory,
                cores=options.cores,
                choose_ports=partial(machine.fixed_ports, base) if base else machine.next_ports,
                maxmemory_bytes=settings.maxmemory_bytes,
                partitions=settings.partitions,
                keep_ticks=options.keep_ticks,
                directives=growth_command.directives(settings),
                tied=False,
                replicas=replicas,
                secured=True,
            )
            _tell_of_ports(shards, base)
            if shards.bus_lack:
                say(bus.open_because(shards.bus_lack))
    return _show(shards, options.json)


def down(options: argparse.Namespace, settings: config.Shards) -> int:
    """Stop the shards, including those that were killed."""
    directory = endpoints.directory(settings)
    shards = running(directory)
    if shards is not None:
        with state_directory.locked(directory):
            shards.stop()
    count = len(shards.shards) if shards else 0
    if options.json:
        print(json.dumps({"stopped": [str(address) for address in shards.addresses] if shards else []}))
    else:
        print(f"stopped {count} shards" if count else f"no shards are running in {directory}")
    return EXIT_OK


def status(options: argparse.Namespace, settings: config.Shards) -> int:
    """Show the local shards. The exit code tells whether all of them serve. Risks from the loss of a shard follow."""
    if options.addresses:
        return remote_command.status(options, settings)
    directory = endpoints.directory(settings)
    shards = running(directory)
    if shards is None:
        if options.json:
            print(json.dumps({"directory": str(directory), "shards": []}))
        say(f"no shards are running in {directory}: `shardpulse shards up` starts them")
        return EXIT_UNAVAILABLE
    return _show(shards, options.json)


def _already_running(directory: Path) -> Shards | None:
    """The shards in ``directory``, with dead ones restarted; None if there are none, or none lives."""
    shards = running(directory)
    if shards is None:
        return None
    if not shards.alive:
        shards.stop()  # all were killed: remove their files
        return None
    for shard in shards.revive():
        say(f"restarted {shard.address}, which had died")
    return shards


def _tell_of_ports(shards: Shards, base: int) -> None:
    """Report ports from the first on that were not available."""
    ports = [shard.port for shard in shards.shards]
    passed = sorted(set(range(machine.FIRST_PORT, max(ports))).difference(ports))
    if passed and not base:
        listed = f"{', '.join(map(str, passed[:8]))}{' …' if len(passed) > 8 else ''}"
        say(f"skipped {listed}: the port or its cluster bus (port + {machine.BUS_OFFSET}) is in use")


def _show(shards: Shards, as_json: bool) -> int:
    rows = shard_status.read(shards.shards, shards.layout.partitions, credentials=shards.credentials)
    written, risks = _record_format(shards), resilience.risks(rows)
    if as_json:
        document = {
            "directory": str(shards.directory),
            "redis": {"version": shards.redis.version, "source": shards.redis.source, "path": shards.redis.path},
            "record_format": written,
            "shards": [row.document(shard_status.SHOWN) for row in rows],
            "risks": [risk._asdict() for risk in risks],
            "begun": shards.intent._asdict() if shards.intent else None,
        }
        print(json.dumps(document, indent=2))
    else:
        print(f"{shards.redis.name} ({shards.redis.source}), state in {shards.directory}")
        print(f"records of format {written}" + ("" if written == record_format.NEWEST else _OLD_FORMAT))
        for row in rows:
            print(_line(row))
        for risk in risks:
            print(risk.line())
        if sum(row.role != "replica" for row in rows) == _PAIR:
            print(_NO_MAJORITY)
        if shards.intent is not None:
            print(f"{shards.intent.action} {shards.intent.shard} is in progress or was interrupted; if so, "
                "finish it with `shardpulse shards balance`")  # fmt: skip
    return EXIT_OK if all(row.answering and row.cluster_state == "ok" for row in rows) else EXIT_UNAVAILABLE


def _record_format(shards: Shards) -> int:
    """Record format in which filters write: from the shards, or as last known if they do not answer."""
    with contextlib.suppress(ShardpulseError), contextlib.closing(shards.connect()) as cluster:
        return read_layout(cluster).record_format
    return shards.layout.record_format


def _line(row: ShardStatus) -> str:
    """Line of a shard of this machine: its process and core after its address."""
    pinned = f"  core {row.core} {'pinned' if row.pinned else 'NOT PINNED'}" if row.answering else ""
    return remote_command.line(row).replace(row.address, f"{row.address}  pid {row.pid}{pinned}", 1)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


# -- ``shardpulse shards upgrade``: let filters write records in the newest format.


def upgrade(options: argparse.Namespace, settings: Settings) -> int:
    """Switch filters to the newest record format known to this version. Run it after all filters and readers (query,
    top, serve, watcher) were upgraded: older ones would stop. Running filters follow within seconds, and no average
    restarts."""
    settings = endpoints.with_addresses(settings, options.shards)
    if options.dir:
        settings = replace(settings, addresses=[])
    with closing(endpoints.connect(settings)) as cluster:
        before = raise_record_format(cluster)
    if not settings.addresses:
        _remember(settings)
    if options.json:
        print(json.dumps({"record_format": record_format.NEWEST, "before": before}))
    elif before == record_format.NEWEST:
        print(f"filters already write records of format {before}, the newest known to this version")
    else:
        print(f"filters now write records of format {record_format.NEWEST} (previously {before})")
    return EXIT_OK


def _remember(settings: Settings) -> None:
    """Update the state file: shards that are restarted empty get their layout from it."""
    directory = endpoints.directory(settings)
    with state_directory.locked(directory):
        shards = running(directory)
        if shards is not None:
            shards.remember_record_format(record_format.NEWEST)
