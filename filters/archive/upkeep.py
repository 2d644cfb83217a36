"""What the database needs now and then, in a thread: old rows removed, minutes compacted."""

from __future__ import annotations

import threading
from collections.abc import Callable

from acquisition.config.archive import Archive
from acquisition.trouble_log import TroubleLog
from filters.archive.errors import ArchiveError
from filters.archive.store import Store

_EVERY = 60.0
_PATIENCE = 5.0
_PAUSE = 0.2  #: between two slices, in which others write


class Upkeep:
    """Works from ``start`` to ``stop``. What does not work is told and tried again a minute later.

    ``clock`` is the shards' clock, seconds since 1970, None while it is not known: a machine whose own clock is
    stepped must not remove what is not old.
    """

    def __init__(self, store: Store, settings: Archive, log: TroubleLog, clock: Callable[[], float | None]) -> None:
        self._store, self._settings, self._log, self._clock = store, settings, log, clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="archive upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is under way, unless the database does not answer."""
        self._stopped.set()
        self._thread.join(_PATIENCE)
        if not self._thread.is_alive():
            self._store.close()

    def _work(self) -> None:
        while not self._stopped.wait(_EVERY):
            now = self._clock()
            if now is None:
                continue
            try:
                while self._store.retain(now, self._settings) and not self._stopped.wait(_PAUSE):
                    pass
                self._store.pass_on(now)
                self._store.compact(now)
            except ArchiveError as error:
                self._log.tell(f"upkeep: {error}", "upkeep")
