"""Tells of frames that their hosts have not signed: as an event, once per host and minute, however many there are."""

from __future__ import annotations

from acquisition.link import happenings
from acquisition.link.resp import pack
from acquisition.wire.rejected import SIGNATURE

_MINUTE = 60.0
#: Hosts of a partition of which it is told within a minute: who forges may name any, and events of others are kept too.
_MOST_HOSTS = 20


class Forged:
    """What was told of a partition within this minute."""

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._until = 0.0
        self._told: set[int] = set()

    def commands(self, host: int, entry: bytes, reason: str, now: float) -> list[bytes]:
        """The packed commands that tell of an entry which was refused, where it is the first that names ``host`` in
        this minute; ``now`` is monotonic."""
        if now >= self._until:
            self._until = now + _MINUTE
            self._told.clear()
        if host in self._told or len(self._told) >= _MOST_HOSTS:
            return []
        self._told.add(host)
        details = {"reason": reason, "entry": entry.decode(errors="replace")}
        return [pack(command) for _, command in happenings.appended(self._tag, SIGNATURE, details, f"{host:016x}")]
