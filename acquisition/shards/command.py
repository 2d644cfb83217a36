"""``shardpulse shards``: the shards of this machine."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from acquisition import help_text
from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.errors import (
    EXIT_CANNOT_CREATE,
    EXIT_CONFIG,
    EXIT_DATA,
    EXIT_NO_INPUT,
    EXIT_OK,
    EXIT_TEMPORARY,
    EXIT_UNAVAILABLE,
    ShardpulseError,
)
from acquisition.link import state_directory
from acquisition.link.cluster import read_layout
from acquisition.shards import (
    bus,
    certificates_command,
    growth_command,
    handover,
    machine,
    one_operator,
    passwords_command,
    remote_command,
    remote_growth,
    render_command,
    replicas_command,
)
from acquisition.shards import status as shard_status
from acquisition.shards.launch import Shards, running, start_shards
from acquisition.shards.status import ShardStatus
from acquisition.shards.upgrade import upgrade
from acquisition.stderr import say, speaker
from acquisition.wire import record_format

_DESCRIPTION = """\
Start, stop and show the shards of this machine; add one or remove one under load.

A shard is one redis-server (6.2 or newer) pinned to one core; together they form a
Redis Cluster that listens on loopback. `up` returns when all are healthy and leaves
them running in the background; they keep everything in memory, so `down` forgets it.

While a partition moves, its clients wait for a fraction of a second and go on at the new
shard; what probes sample meanwhile stays in their outboxes, so nothing is lost."""

_EXAMPLES = """
shardpulse shards up                     one shard per core, on ports from 7600 on
shardpulse shards up --count 3 --base-port 7001
shardpulse shards up --cores 2,3         only on these cores
shardpulse shards status                 is each answering and pinned? how full is it?
shardpulse shards up --replicas 1        each with a replica that takes over when it dies
shardpulse shards up                     again: starts those that have died, at their places
shardpulse shards add                    one more, with its part of the partitions, under load
shardpulse shards remove shard-2         empty one (by name, HOST:PORT or port) and stop it
shardpulse shards balance                finish an add or remove that was interrupted
shardpulse shards upgrade                all filters and readers are new: use the newest record format
shardpulse shards render configuration --announce shard-1.example.org --maxmemory 8589934592 --passwords secrets
shardpulse shards render users --passwords secrets     for a shard that systemd runs; `unit` and `machine` as well
shardpulse shards form --addresses shard-1.example.org:7600,shard-2.example.org:7600,shard-3.example.org:7600
shardpulse shards status --addresses shard-1.example.org:7600     all that it knows; `balance` as well
shardpulse shards add shard-4.example.org:7600 --addresses shard-1.example.org:7600     then `drain`, `remove`
shardpulse shards replicas shard-5.example.org:7600 --each 1 --addresses shard-1.example.org:7600     a new machine
shardpulse shards handover shard-1.example.org:7600 --addresses shard-2.example.org:7600     before it is restarted
shardpulse shards certificates --addresses shard-1.example.org:7600     after other files were put in their place
shardpulse shards certificates --addresses shard-1.example.org:7600 --expired old.pem     where these are over already
shardpulse shards passwords begin probe --passwords secrets --addresses shard-1.example.org:7600     then `finish`
shardpulse shards down                   end them and remove their files
"""
_OLD_FORMAT = f", not {record_format.NEWEST}: `shardpulse shards upgrade` once all filters and readers are new"
_PAIR = 2
_NO_MAJORITY = (
    "two shards have no majority without each other: when one dies, the other refuses everything within seconds,\n"
    "until `shardpulse shards up` has started it again; three go on without one of them"
)
_BY_ADDRESS = (
    remote_command.form, remote_growth.drain, replicas_command.replicas, handover.handover, passwords_command.passwords,
    certificates_command.certificates,
)  # fmt: skip
#: With --addresses: what moves partitions or replicas. Each may be repeated, but no two may meet.
_ONE_AT_A_TIME = (
    growth_command.add, growth_command.remove, growth_command.balance, remote_growth.drain, replicas_command.replicas,
    handover.handover,
)  # fmt: skip
_PORT = help_text.whole(1, 65535)


def main(argv: list[str]) -> int:
    """Run the command."""
    options = _parser().parse_args(argv)
    everything = config.load(options.config)
    settings = everything.shards
    if options.dir:
        settings = replace(settings, directory=options.dir)
    options.keep_ticks = everything.filter.keep_ticks
    action: Callable[[argparse.Namespace, config.Shards], int] = options.action
    if getattr(options, "addresses", None) and action in _ONE_AT_A_TIME:
        addresses, user = remote_command.named(options, settings)
        words = ["shards", action.__name__, *_named_shards(options)]
        with one_operator.only(addresses, user, " ".join(words), speaker("shards")):
            return action(options, settings)
    return action(options, settings)


def _named_shards(options: argparse.Namespace) -> list[str]:
    return [str(one) for one in (*getattr(options, "server", ()), getattr(options, "shard", "")) if one]


def up(options: argparse.Namespace, settings: config.Shards) -> int:
    """Start the shards, or say that they run already."""
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
            if not shards.bus_secured:
                say(bus.OPEN)
    return _show(shards, options.json)


def down(options: argparse.Namespace, settings: config.Shards) -> int:
    """Stop the shards, those included that somebody killed."""
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
    """Show the shards; the exit code says whether all of them serve, and whether each has the replica in sync that
    others have."""
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
    """The shards in ``directory``, those that had died started again; None when there are none, or none lives."""
    shards = running(directory)
    if shards is None:
        return None
    if not shards.alive:
        shards.stop()  # all were killed: remove what they left
        return None
    for shard in shards.revive():
        say(f"started {shard.address} again, which had died")
    return shards


def _tell_of_ports(shards: Shards, base: int) -> None:
    """Name the ports from the first on that could not be had."""
    ports = [shard.port for shard in shards.shards]
    passed = sorted(set(range(machine.FIRST_PORT, max(ports))).difference(ports))
    if passed and not base:
        listed = f"{', '.join(map(str, passed[:8]))}{' …' if len(passed) > 8 else ''}"
        say(f"passed over {listed}: that port or its cluster bus (port + {machine.BUS_OFFSET}) is in use")


def _show(shards: Shards, as_json: bool) -> int:
    rows = shard_status.read(shards.shards, shards.layout.partitions, credentials=shards.credentials)
    written, risks = _record_format(shards), shard_status.risks(rows)
    if as_json:
        document = {
            "directory": str(shards.directory),
            "redis": {"version": shards.redis.version, "source": shards.redis.source, "path": shards.redis.path},
            "record_format": written,
            "shards": [row._asdict() for row in rows],
            "risks": [risk._asdict() for risk in risks],
            "begun": shards.intent._asdict() if shards.intent else None,
        }
        print(json.dumps(document, indent=2))
    else:
        print(f"redis-server {shards.redis.version} ({shards.redis.source}), state in {shards.directory}")
        print(f"records of format {written}" + ("" if written == record_format.NEWEST else _OLD_FORMAT))
        for row in rows:
            print(_line(row))
        for risk in risks:
            print(risk.line())
        if sum(row.role != "replica" for row in rows) == _PAIR:
            print(_NO_MAJORITY)
        if shards.intent is not None:
            print(f"{shards.intent.action} {shards.intent.shard} is under way, or was interrupted: then finish it with "
                  "`shardpulse shards balance`")  # fmt: skip
    serving = all(row.answering and row.cluster_state == "ok" for row in rows)
    return EXIT_OK if serving and not any(risk.grave for risk in risks) else EXIT_UNAVAILABLE


def _record_format(shards: Shards) -> int:
    """In which filters write: what the shards say, or what is known of shards that do not answer."""
    with contextlib.suppress(ShardpulseError), contextlib.closing(shards.connect()) as cluster:
        return read_layout(cluster).record_format
    return shards.layout.record_format


def _line(row: ShardStatus) -> str:
    """A shard of this machine: its process and core after its address."""
    pinned = f"  core {row.core} {'pinned' if row.pinned else 'NOT PINNED'}" if row.answering else ""
    return remote_command.line(row).replace(row.address, f"{row.address}  pid {row.pid}{pinned}", 1)


def _parser() -> argparse.ArgumentParser:
    codes = (EXIT_DATA, EXIT_NO_INPUT, EXIT_UNAVAILABLE, EXIT_CANNOT_CREATE, EXIT_TEMPORARY, EXIT_CONFIG)
    parser = help_text.parser("shards", _DESCRIPTION, _EXAMPLES, codes)
    actions = parser.add_subparsers(
        metavar="up|down|status|add|remove|balance|drain|replicas|handover|form|passwords|certificates|upgrade|render",
        required=True,
    )
    texts = {
        up: "start shards, or those of them again that died",
        down: "stop them",
        status: "show them",
        growth_command.add: "one more shard, under load",
        growth_command.remove: "one shard less, under load",
        growth_command.balance: "finish what was interrupted, even out",
        remote_growth.drain: "empty one that somebody else runs, under load",
        replicas_command.replicas: "give each master its replicas, on other machines",
        handover.handover: "let a replica take over from a master that is to be restarted",
        upgrade: "let filters write the newest record format",
        remote_command.form: "make a cluster of servers that somebody else runs",
        passwords_command.passwords: "other passwords for the users of a running cluster",
        certificates_command.certificates: "let running shards read their certificates again",
        render_command.render: "print the files of a shard that systemd runs",
    }
    for action, text in texts.items():
        sub = actions.add_parser(action.__name__, help=text, description=action.__doc__, allow_abbrev=False)
        sub.set_defaults(action=action)
        sub.add_argument("--config", metavar="FILE", help=help_text.CONFIG_HELP)
        if action is render_command.render:
            sub.set_defaults(dir=None)
            render_command.add_options(sub)
            continue
        if action not in (up, down, upgrade):
            sub.add_argument(
                "--addresses", metavar="HOST:PORT,...", required=action in _BY_ADDRESS,
                help="shards that somebody else runs, as the user of [shards] (for form: masters before replicas)",
            )  # fmt: skip
        if action in _BY_ADDRESS:
            sub.set_defaults(dir=None)
            _add_by_address(sub, action)
            continue
        help_text.add_directory(sub)
        sub.add_argument("--json", action="store_true", help="print JSON")
        if action is up:
            _add_up_options(sub)
        elif action is growth_command.add:
            _add_add_options(sub)
        elif action is upgrade:
            sub.add_argument("--shards", metavar="HOST:PORT,...", help="any of the shards, if they run elsewhere")
        elif action is growth_command.remove:
            sub.add_argument("shard", metavar="SHARD", help="its name (shard-2), HOST:PORT or port")
    return parser


def _add_by_address(parser: argparse.ArgumentParser, action: Callable[..., int]) -> None:
    """What a command takes that is for shards of others only."""
    if action is passwords_command.passwords:
        passwords_command.add_options(parser)
        return
    parser.add_argument("--json", action="store_true", help="print JSON")
    if action is remote_command.form:
        _add_replicas(parser)
    elif action is replicas_command.replicas:
        replicas_command.add_options(parser)
    elif action is certificates_command.certificates:
        certificates_command.add_options(parser)
    else:
        parser.add_argument("shard", metavar="HOST:PORT", help="the master")
    if action is handover.handover:
        parser.add_argument("--to", metavar="HOST:PORT", help="which of its replicas (default: the most current)")


def _add_add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "server", nargs="*", metavar="HOST:PORT", help="with --addresses: the server to add, then its replicas"
    )
    parser.add_argument("--core", type=_core_list, metavar="N", help="core to pin to (default: the one with fewest)")
    parser.add_argument("--port", type=_PORT, metavar="P", help="its port (default: the next free one)")
    parser.add_argument(
        "--maxmemory", type=help_text.whole(1 << 20, 1 << 60, " bytes"), metavar="BYTES",
        help="its limit (default: that of the others)",
    )  # fmt: skip


def _add_up_options(parser: argparse.ArgumentParser) -> None:
    help_text.add_shard_count(parser, "--count")
    _add_replicas(parser)
    parser.add_argument(
        "--base-port", type=_PORT, metavar="P",
        help=f"first port, all from it on must be free (default: {machine.FIRST_PORT}, passing over those in use)",
    )  # fmt: skip
    usable = ",".join(map(str, machine.cores()))
    parser.add_argument(
        "--cores", type=_core_list, default=[], metavar="LIST", help=f"cores to pin to, in turn (default: {usable})"
    )


def _add_replicas(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replicas", type=help_text.whole(0, 8), metavar="N",
        help="replicas of each shard (default: [shards] replicas, which is 0)",
    )  # fmt: skip


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _core_list(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of cores such as 0,1") from error
