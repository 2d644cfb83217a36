"""How long a part waits for the layout of shards that are not there yet, or that are just being started."""

from __future__ import annotations

from acquisition.errors import AdmissionError, ConfigError

#: Seconds in which shards that are being started get their layout: they answer before it is written.
LAYOUT_SECONDS = 10.0


class LayoutPatience:
    """``seconds`` for shards that cannot be reached; LAYOUT_SECONDS for such as answer without a layout, from the
    moment that they do so: it does not matter how long they could not be reached before. None for a shard that must not
    be spoken to: that does not pass."""

    def __init__(self, seconds: float, now: float) -> None:
        self._until = now + seconds
        self._without_since: float | None = None

    def ends(self, error: Exception, now: float) -> bool:
        """Whether ``error``, met at ``now`` (seconds of a monotonic clock), is to be raised instead of waited for."""
        if isinstance(error, AdmissionError):
            return True
        if not isinstance(error, ConfigError):
            self._without_since = None
            return now >= self._until
        if self._without_since is None:
            self._without_since = now
        return now >= min(self._until, self._without_since + LAYOUT_SECONDS)
