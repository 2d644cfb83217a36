"""Hot lists for who asks often: a thread lists ahead, so that whoever asks finds nearly everything read and judged.

What a list costs is reading and judging what has come since the last one. The thread does that a few times a second.
Who asks still reads what has been committed since: the answer is that of ``hot_list`` at this moment, never an older
one.

::

    with SnapshotReader.connect() as reader, ReadyHotList(reader, settings.decisions, method) as ready:
        decided = ready.ask()
"""

from __future__ import annotations

from typing import Self

from acquisition.config.decisions import Decisions
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.ahead import Ahead
from filters.decisions.deciding import Decided
from filters.decisions.method import Method
from filters.judging.hot_list import hot_list
from filters.judging.last_verdicts import LastVerdicts

EVERY = 0.1  #: seconds behind a list in which nobody has asked, the thread lists


class ReadyHotList:
    """Lists with ``reader``, which nobody else may use before ``close``; any thread may ask.

    Hosts are judged with what was hot in the list before, be it the thread's or one that was asked for. What the
    thread cannot read is told to who asks.
    """

    def __init__(self, reader: SnapshotReader, settings: Decisions, method: Method, every: float = EVERY) -> None:
        self._reader, self._settings, self._method = reader, settings, method
        self._hot: frozenset[str] = frozenset()
        self._last = LastVerdicts()
        self._ahead = Ahead(self._list, lambda: every, self._list)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, after what it is reading; the reader is the caller's again."""
        self._ahead.close()

    def ask(self) -> Decided:
        """As ``hot_list``."""
        return self._ahead.ask()

    def _list(self) -> Decided:
        decided = hot_list(self._reader, self._settings, self._method, self._hot, self._last)
        self._hot = decided.heat.hot
        return decided
