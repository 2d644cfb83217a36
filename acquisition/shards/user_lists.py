"""The users of each shard (ACL LIST), compared: a replica that lacks a change refuses its users after a failover."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from acquisition.link.resp import Address, ReplyError
from acquisition.shards.nodes import Members, Node

Rules = tuple[str, ...]  #: of a user: the root's, then those of its selectors


def read(members: Members, nodes: list[Node]) -> dict[Address, dict[str, Rules]]:
    """The users of every member that shows them to the caller."""
    found = {}
    for node in nodes:
        (reply,) = members.pipeline(node.id, [("ACL", "LIST")])
        if not isinstance(reply, ReplyError):  # an observer may not ask
            found[node.address] = dict(map(_parsed, reply))
    return found


def differing(lists: Mapping[Address, dict[str, Rules]]) -> dict[Address, list[str]]:
    """The users whose rules on a shard are other ones than on most, by shard; none where all agree."""
    users = {user for rules in lists.values() for user in rules}
    usual = {user: _most([rules.get(user) for rules in lists.values()]) for user in users}
    found = {
        address: sorted(user for user in users if rules.get(user) != usual[user]) for address, rules in lists.items()
    }
    return {address: names for address, names in found.items() if names}


def _most(values: list[Rules | None]) -> Rules | None:
    """What most have; of equally many what the first has."""
    return Counter(values).most_common(1)[0][0]


def _parsed(line: Any) -> tuple[str, Rules]:
    """Name and rules. Words and selectors come in any order: a shard keeps commands in a table of its own."""
    _, name, rules = line.decode().split(" ", 2)
    root, *selectors = re.split(r" ?\(", rules)
    return name, (_sorted(root), *sorted(_sorted(one.rstrip(")")) for one in selectors))


def _sorted(words: str) -> str:
    return " ".join(sorted(words.split()))
