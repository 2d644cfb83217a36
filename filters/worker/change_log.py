"""What each commit of a partition changes, told to readers who follow it (``acquisition.wire.changes``).

An entry costs one copy of the positions of a commit and of its records of hosts' own figures. Only where readers have
said that they follow is it written at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from acquisition.link.resp import pack
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.wire import changes, keys
from filters.worker.host_records import value_of
from filters.worker.state import State

_OWN = f":{resource_set_id(HOST_SET):08x}:".encode()
_EXPIRE = "60"  #: seconds, so that nothing stays of a worker that has ended


class ChangeLog:
    """The log of one partition; its worker uses it."""

    def __init__(self, tag: str) -> None:
        self._key = keys.changes(tag)
        self._is_followed = self._is_there = False
        self._renew: list[bytes] = []

    def hear(self, is_followed: bool) -> None:
        """Whether somebody follows; while that is so, it is said about once a second."""
        self._is_followed = is_followed
        if is_followed:
            self._renew = [pack(("EXPIRE", self._key, _EXPIRE))]

    def commands(
        self, before: bytes, commit: bytes, moved: Mapping[bytes, State], records: Mapping[bytes, bytes]
    ) -> list[bytes]:
        """What a commit runs as well, packed: ``moved`` are the states by member whose positions it writes, ``records``
        SET commands by prefix, of which those of hosts' own figures are taken."""
        if not self._is_followed:
            ended, self._is_there = self._is_there, False
            return [pack(("DEL", self._key))] if ended else []
        own = [value_of(prefix, command) for prefix, command in records.items() if _OWN in prefix]
        pairs = b"".join([member + bytes(state.track) for member, state in moved.items()])
        entry = changes.encode(before, commit, pairs, own)
        renew, self._renew, self._is_there = self._renew, [], True
        return [pack(("XADD", self._key, "MAXLEN", str(changes.KEPT), "*", *entry)), *renew]
