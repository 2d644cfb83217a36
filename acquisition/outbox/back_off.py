"""When to try again (no input or output): a data center must not knock at a restarted shard in step or all at once."""

from __future__ import annotations

_FIRST_DELAY = 0.05
#: A replica takes some seconds to take over, and then every probe is to be there soon: hence short delays for
#: so many attempts, some 8 s.
_QUICK_DELAY = 0.5
_QUICK_ATTEMPTS = 24
_MOST_DELAY = 2.0
_SLOW_DELAY = 5.0
#: A handshake waits for those of all other hosts: ten thousand of half a millisecond each are 5 s of one shard. To give
#: up sooner would begin it anew, at the end of the queue.
_PATIENCE = 5.0  #: in timeouts


class BackOff:
    """Delays of a host, which grow with what has failed. ``timeout`` is how long an answer may take of a shard that has
    no handshakes to make, ``patience`` in seconds how long a handshake may, and the first answer after it."""

    def __init__(self, host: int, timeout: float) -> None:
        self.attempts = 0  #: since the last success
        self._host = host
        self.patience = _PATIENCE * timeout

    def succeed(self) -> None:
        """The next failure is followed by a short delay again."""
        self.attempts = 0

    def after(self, slow: bool) -> float:
        """Seconds until the next attempt after a failure; ``slow`` when only a person can repair it."""
        most = _QUICK_DELAY if self.attempts < _QUICK_ATTEMPTS else _MOST_DELAY
        delay = _SLOW_DELAY if slow else min(most, _FIRST_DELAY * 2.0 ** min(self.attempts, 16))
        self.attempts += 1
        return delay * (0.5 + 0.5 * self._jitter())

    def _jitter(self) -> float:
        mixed = ((self._host ^ self.attempts) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        return (mixed >> 40) / (1 << 24)
