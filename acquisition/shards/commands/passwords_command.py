"""Passwords of a running cluster: ``shardpulse shards passwords begin|finish``.

They are changed on every member, replicas too, since users are not replicated. ACL SETUSER changes a user without
disconnecting anyone; ACL LOAD disconnects all (Redis 7.0, measured). Only hashes of passwords are sent, except that of
replicas, which every shard sends to its master.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ShardError, UnavailableError, UsageError
from acquisition.link.resp import ReplyError
from acquisition.shards.commands import remote_command
from acquisition.shards.servers import grants, password_files
from acquisition.shards.topology.nodes import Command, Members, Node

BEGIN, FINISH = "begin", "finish"


def passwords(options: argparse.Namespace, settings: config.Shards) -> int:
    """Rotate passwords in two steps, as the user `keeper`. `begin` creates USER.next in --passwords and makes it valid
    on every shard, in addition to USER. Then give clients the new password: they read their password file at each
    login. `finish` revokes the old password everywhere, closes the users' sessions, which reconnect with the new one,
    and renames USER.next to USER. Each step may be repeated; a shard that does not answer stops it before anything is
    changed."""
    addresses, user = remote_command.named(options, settings)
    directory, users = Path(options.passwords), list(dict.fromkeys(options.user))
    with Members(addresses, user, settings.timeout_seconds) as members:
        if options.step == BEGIN:
            coming = password_files.begin(directory, users)
            told = {"step": BEGIN, "users": users, "shards": len(begin_rotation(members, coming))}
        else:
            coming = password_files.coming(directory, users)
            if missing := [name for name in users if name not in coming]:
                raise UsageError(f"no rotation of {', '.join(missing)} is in progress in {directory}")
            told = {"step": FINISH, "users": users, "sessions": finish_rotation(members, coming)}
            for name in users:
                password_files.finish(directory, name)
    print(json.dumps(told) if options.json else _text(told, directory))
    return EXIT_OK


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``passwords``."""
    parser.add_argument(
        "step", choices=(BEGIN, FINISH), help="accept the next password as well (begin), then only it (finish)"
    )
    parser.add_argument("user", nargs="+", metavar="USER", help="user: probe, filter, probe@HOST …")
    parser.add_argument(
        "--passwords", required=True, metavar="DIR", help="directory with a file for each user, as made by `render`"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _text(told: dict[str, object], directory: Path) -> str:
    if told["step"] == BEGIN:
        where = f"{directory}/USER.next"
        return f"both passwords are valid on {told['shards']} shards; give clients those in {where}, then run finish"
    return f"old passwords revoked, {told['sessions']} sessions closed; render the users' files again"


def begin_rotation(members: Members, coming: Mapping[str, str]) -> list[Node]:
    """Make the passwords ``coming`` (by user) valid in addition to the present ones; returns the members.

    Raises UnavailableError if a member does not answer, ShardError if one lacks a user: then nothing was changed.
    """
    nodes = _everybody(members, list(coming))
    _set(members, nodes, {user: [f"#{grants.hashed(password)}"] for user, password in coming.items()})
    if grants.REPLICATION in coming:  # by now every master accepts it
        for node in nodes:
            members.all(node.id, [("CONFIG", "SET", "masterauth", coming[grants.REPLICATION])])
    _check(members, nodes, coming, alone=False)
    return nodes


def finish_rotation(members: Members, coming: Mapping[str, str]) -> int:
    """Make the passwords ``coming`` the only ones, and end all sessions of their users; returns their number.

    Raises as ``begin_rotation``, and ShardError if a member does not know one of them: its clients would be shut out.
    """
    nodes = _everybody(members, list(coming))
    _check(members, nodes, coming, alone=False)
    only = {user: ["resetpass", f"#{grants.hashed(password)}"] for user, password in coming.items()}
    _set(members, nodes, only)
    _check(members, nodes, coming, alone=True)
    kills: list[Command] = [("CLIENT", "KILL", "USER", user) for user in coming]
    return sum(sum(members.all(node.id, kills)) for node in nodes)


def _everybody(members: Members, users: Sequence[str]) -> list[Node]:
    nodes = members.look()
    if absent := members.absent:
        reasons = "; ".join(absent.values())
        raise UnavailableError(f"passwords must be changed on all shards: {reasons}; start or remove it first")
    for node in nodes:
        known = members.all(node.id, [("ACL", "GETUSER", user) for user in users])
        lacking = [user for user, found in zip(users, known, strict=True) if found is None]
        if lacking:
            raise ShardError(
                f"shard {node.address} lacks user {', '.join(lacking)}; give it the users of the other shards"
            )
    return nodes


def _set(members: Members, nodes: Sequence[Node], rules: Mapping[str, Sequence[str]]) -> None:
    for node in nodes:
        members.all(node.id, [("ACL", "SETUSER", user, *words) for user, words in rules.items()])


def _check(members: Members, nodes: Sequence[Node], coming: Mapping[str, str], alone: bool) -> None:
    """Raise ShardError if a password is not valid on a member, or not the only one though it should be."""
    wanted = {user: grants.hashed(password).encode() for user, password in coming.items()}
    for node in nodes:
        replies = members.all(node.id, [("ACL", "GETUSER", user) for user in wanted])
        for (user, hashed), reply in zip(wanted.items(), replies, strict=True):
            valid = reply[reply.index(b"passwords") + 1] if not isinstance(reply, ReplyError) and reply else []
            if hashed not in valid or (alone and valid != [hashed]):
                raise ShardError(f"shard {node.address} does not have the next password of {user}; run begin again")
