"""Where each VM was seen last, so that one that appears elsewhere is known to have moved (pure)."""

from __future__ import annotations

_KEPT = 3600.0  #: seconds after which one that has vanished is forgotten: longer than any migration
_MOST = 10_000  #: that have vanished; with more the one that vanished first is forgotten earlier


class Whereabouts:
    """Of all partitions together; seconds are those of minutes, which come roughly in order."""

    def __init__(self) -> None:
        self._hosts: dict[str, int] = {}
        self._gone: dict[str, float] = {}  #: since when, the oldest first

    def __len__(self) -> int:
        return len(self._hosts)

    def appears(self, stable: str, host: int, now: float) -> int | None:
        """A VM is on ``host``; on which other one it was before, if it was."""
        self._forget(now)
        self._gone.pop(stable, None)
        before = self._hosts.get(stable, host)
        self._hosts[stable] = host
        return before if before != host else None

    def vanishes(self, stable: str, host: int, now: float) -> None:
        """It is on ``host`` no more."""
        self._forget(now)
        if self._hosts.get(stable) == host:
            self._gone.pop(stable, None)
            self._gone[stable] = now

    def _forget(self, now: float) -> None:
        while self._gone:
            stable = next(iter(self._gone))
            if self._gone[stable] > now - _KEPT and len(self._gone) <= _MOST:
                break
            del self._gone[stable], self._hosts[stable]
