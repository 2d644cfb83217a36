"""Other passwords for users of a running cluster: on every member, replicas too, since users do not replicate.

ACL SETUSER changes a user and disconnects nobody; ACL LOAD disconnects all (Redis 7.0, measured). Only hashes of
passwords are sent, but for that of replicas, which every shard sends to its master.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from acquisition.errors import ShardError, UnavailableError
from acquisition.link.resp import ReplyError
from acquisition.shards.servers import grants
from acquisition.shards.topology.nodes import Command, Members, Node


def begin(members: Members, coming: Mapping[str, str]) -> list[Node]:
    """Let the passwords ``coming`` (by user) be valid beside those that are; answers the members.

    Raises UnavailableError when a member does not answer, ShardError when one lacks a user: then nothing was changed.
    """
    nodes = _everybody(members, list(coming))
    _set(members, nodes, {user: [f"#{grants.hashed(password)}"] for user, password in coming.items()})
    if grants.REPLICATION in coming:  # every master knows it by now
        for node in nodes:
            members.all(node.id, [("CONFIG", "SET", "masterauth", coming[grants.REPLICATION])])
    _check(members, nodes, coming, alone=False)
    return nodes


def finish(members: Members, coming: Mapping[str, str]) -> int:
    """Let the passwords ``coming`` be the only ones, and end all sessions of their users; answers how many.

    Raises as ``begin``, and ShardError when a member does not know one of them: its clients would be shut out.
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
        raise UnavailableError(f"passwords are changed on all shards or on none: {reasons}; start or remove it first")
    for node in nodes:
        known = members.all(node.id, [("ACL", "GETUSER", user) for user in users])
        lacking = [user for user, found in zip(users, known, strict=True) if found is None]
        if lacking:
            raise ShardError(f"shard {node.address} has no user {', '.join(lacking)}: give it the users of the others")
    return nodes


def _set(members: Members, nodes: Sequence[Node], rules: Mapping[str, Sequence[str]]) -> None:
    for node in nodes:
        members.all(node.id, [("ACL", "SETUSER", user, *words) for user, words in rules.items()])


def _check(members: Members, nodes: Sequence[Node], coming: Mapping[str, str], alone: bool) -> None:
    """Raises ShardError when a password is not valid on a member, or not the only one though it should be."""
    wanted = {user: grants.hashed(password).encode() for user, password in coming.items()}
    for node in nodes:
        replies = members.all(node.id, [("ACL", "GETUSER", user) for user in wanted])
        for (user, hashed), reply in zip(wanted.items(), replies, strict=True):
            valid = reply[reply.index(b"passwords") + 1] if not isinstance(reply, ReplyError) and reply else []
            if hashed not in valid or (alone and valid != [hashed]):
                raise ShardError(f"shard {node.address} does not know the next password of {user}: begin again")
