"""``shardpulse shards``: the shards of this machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.log import Category
from acquisition.shards.commands import (
    certificates_command,
    growth_command,
    handover,
    local_command,
    passwords_command,
    remote_command,
    render_command,
    replicas_command,
)
from acquisition.shards.commands.local_command import upgrade
from acquisition.shards.servers import machine
from acquisition.shards.topology import one_operator

_DESCRIPTION = """\
Start, stop and show local shards; add or remove shards under load.

A shard is one server (Redis 6.2 or newer, Valkey) pinned to one core; together they form a
Redis Cluster that listens on loopback. `up` returns when all are healthy and leaves
them running in the background. Data is kept in memory only, so `down` discards it.

While a partition moves, its clients wait for a fraction of a second and continue at the
new shard; samples taken meanwhile stay in the probes' outboxes, so nothing is lost."""

_EXAMPLES = """
shardpulse shards up                     one shard per core, on ports from 7600 on
shardpulse shards up --count 3 --base-port 7001
shardpulse shards up --cores 2,3         only on these cores
shardpulse shards status                 state, pinning and memory of each
shardpulse shards up --replicas 1        one replica each, which takes over on failure
shardpulse shards up                     restarts shards that have died
shardpulse shards add                    add one, with its share of the partitions
shardpulse shards remove shard-2         empty one (by name, HOST:PORT or port) and stop it
shardpulse shards balance                finish an interrupted add or remove
shardpulse shards upgrade                use the newest record format, after all parts were upgraded
shardpulse shards render configuration --announce shard-1.example.org --maxmemory 8589934592 --passwords secrets
shardpulse shards render users --passwords secrets     for a shard run by systemd; also `unit`, `machine`
shardpulse shards form --addresses shard-1.example.org:7600,shard-2.example.org:7600,shard-3.example.org:7600
shardpulse shards status --addresses shard-1.example.org:7600     the whole cluster; also `balance`
shardpulse shards add shard-4.example.org:7600 --addresses shard-1.example.org:7600     then `drain`, `remove`
shardpulse shards replicas shard-5.example.org:7600 --each 1 --addresses shard-1.example.org:7600     a new machine
shardpulse shards handover shard-1.example.org:7600 --addresses shard-2.example.org:7600     before a restart
shardpulse shards certificates --addresses shard-1.example.org:7600     after their files were replaced
shardpulse shards certificates --addresses shard-1.example.org:7600 --expired old.pem     where they have expired
shardpulse shards passwords begin probe --passwords secrets --addresses shard-1.example.org:7600     then `finish`
shardpulse shards down                   stop them and remove their files
"""
_BY_ADDRESS = (
    remote_command.form, growth_command.drain, replicas_command.replicas, handover.handover,
    passwords_command.passwords, certificates_command.certificates,
)  # fmt: skip
#: With --addresses: commands that move partitions or replicas. Each may be repeated, but no two may overlap.
_ONE_AT_A_TIME = (
    growth_command.add, growth_command.remove, growth_command.balance, growth_command.drain, replicas_command.replicas,
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
        with one_operator.only(addresses, user, " ".join(words), Category("shards")):
            return action(options, settings)
    return action(options, settings)


def _named_shards(options: argparse.Namespace) -> list[str]:
    return [str(one) for one in (*getattr(options, "server", ()), getattr(options, "shard", "")) if one]


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("shards", _DESCRIPTION, _EXAMPLES)
    actions = parser.add_subparsers(
        metavar="up|down|status|add|remove|balance|drain|replicas|handover|form|passwords|certificates|upgrade|render",
        required=True,
    )
    texts = {
        local_command.up: "start shards, or restart those that died",
        local_command.down: "stop them",
        local_command.status: "show them",
        growth_command.add: "add a shard, under load",
        growth_command.remove: "remove a shard, under load",
        growth_command.balance: "finish interrupted changes, rebalance",
        growth_command.drain: "move all partitions off a remote shard",
        replicas_command.replicas: "place replicas of each master on other machines",
        handover.handover: "promote a replica before a master is restarted",
        upgrade: "switch filters to the newest record format",
        remote_command.form: "form a cluster of remote servers",
        passwords_command.passwords: "rotate passwords of a running cluster",
        certificates_command.certificates: "reload the certificates of running shards",
        render_command.render: "print the files of a shard run by systemd",
    }
    for action, text in texts.items():
        sub = actions.add_parser(action.__name__, help=text, description=action.__doc__, allow_abbrev=False)
        sub.set_defaults(action=action)
        sub.add_argument("--config", metavar="FILE", help=help_text.CONFIG_HELP)
        if action is render_command.render:
            sub.set_defaults(dir=None)
            render_command.add_options(sub)
            continue
        if action not in (local_command.up, local_command.down, upgrade):
            sub.add_argument(
                "--addresses", metavar="HOST:PORT,...", required=action in _BY_ADDRESS,
                help="addresses of remote shards, accessed as the user of [shards] (form: masters before replicas)",
            )  # fmt: skip
        if action in _BY_ADDRESS:
            sub.set_defaults(dir=None)
            _add_by_address(sub, action)
            continue
        help_text.add_directory(sub)
        sub.add_argument("--json", action="store_true", help="print JSON")
        if action is local_command.up:
            _add_up_options(sub)
        elif action is growth_command.add:
            _add_add_options(sub)
        elif action is upgrade:
            sub.add_argument("--shards", metavar="HOST:PORT,...", help="address of any shard of a remote cluster")
        elif action is growth_command.remove:
            sub.add_argument("shard", metavar="SHARD", help="name (shard-2), HOST:PORT or port")
    return parser


def _add_by_address(parser: argparse.ArgumentParser, action: Callable[..., int]) -> None:
    """Add the options of a command that applies only to shards run elsewhere."""
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
        parser.add_argument("--to", metavar="HOST:PORT", help="replica to promote (default: the most current)")


def _add_add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "server", nargs="*", metavar="HOST:PORT", help="with --addresses: server to add, followed by its replicas"
    )
    parser.add_argument(
        "--core", type=_core_list, metavar="N", help="core to pin to (default: the one with the fewest shards)"
    )
    parser.add_argument("--port", type=_PORT, metavar="P", help="port (default: the next free one)")
    parser.add_argument(
        "--maxmemory", type=help_text.whole(1 << 20, 1 << 60, " bytes"), metavar="BYTES",
        help="memory limit (default: that of the other shards)",
    )  # fmt: skip


def _add_up_options(parser: argparse.ArgumentParser) -> None:
    help_text.add_shard_count(parser, "--count")
    _add_replicas(parser)
    parser.add_argument(
        "--base-port", type=_PORT, metavar="P",
        help=f"first port; following ports must be free (default: free ports from {machine.FIRST_PORT} on)",
    )  # fmt: skip
    usable = ",".join(map(str, machine.cores()))
    parser.add_argument(
        "--cores", type=_core_list, default=[], metavar="LIST", help=f"cores to pin to, in order (default: {usable})"
    )


def _add_replicas(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--replicas", type=help_text.whole(0, 8), metavar="N",
        help="number of replicas per shard (default: [shards] replicas)",
    )  # fmt: skip


def _core_list(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid core list {text!r}: expected a list such as 0,1") from error
