"""Pauses on an open connection whose shard accepts no frames (no I/O).

A full shard answers every host with an error. If each of ten thousand then reconnected, the shard would be
busy with nothing but handshakes. So after an error that will pass, a host stays and asks now and then.
"""

from __future__ import annotations

#: It is full, has too few replicas, cannot save its data, or runs a script: accepted frames are kept.
_TAKES_NOTHING = ("OOM", "NOREPLICAS", "MISCONF", "BUSY")
#: Afterwards it may have other data, or another shard its partition.
_ABSENT = ("LOADING", "CLUSTERDOWN")
#: Seconds to stay with an absent one: others may know of a failover. Doubled after each vain stay.
_STAY, _LONGEST_STAY = 3.0, 48.0
_INFINITY = float("inf")


def is_absent(word: str) -> bool:
    """Whether the filter's positions must be read after this error, as on a new connection."""
    return word in _ABSENT


class Pause:
    """``is_on`` while frames wait; ``due`` is when to ask again, infinite while an answer is pending."""

    def __init__(self) -> None:
        self.is_on = False
        self.due = _INFINITY
        self._stay = _STAY
        self._until = _INFINITY

    @property
    def is_asked(self) -> bool:
        """Whether it is on, and the shard has been asked since its last refusal."""
        return self.is_on and self.due == _INFINITY

    def allows(self, word: str, now: float) -> bool:
        """Whether to stay with a shard that answers with an error of this kind."""
        if word in _TAKES_NOTHING:
            self._until = _INFINITY
            return True
        if word not in _ABSENT:
            return False
        if not self.is_on or self._until == _INFINITY:
            self._until = now + self._stay
        if now < self._until:
            return True
        self._stay = min(_LONGEST_STAY, 2.0 * self._stay)
        return False

    def begin(self, due: float) -> None:
        """The shard has refused something: ask again at ``due``."""
        self.is_on, self.due = True, due

    def ask(self) -> None:
        """The shard is being asked."""
        self.due = _INFINITY

    def end(self) -> None:
        """The shard accepts frames again."""
        self._stay = _STAY
        self.forget()

    def forget(self) -> None:
        """There is a new connection."""
        self.is_on, self.due, self._until = False, _INFINITY, _INFINITY
