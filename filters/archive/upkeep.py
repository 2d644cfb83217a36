"""What the database needs now and then, in a thread: old rows removed, minutes compacted."""

from __future__ import annotations

import threading
import time

from acquisition.trouble_log import TroubleLog
from filters.archive.errors import ArchiveError
from filters.archive.retention import Retention
from filters.archive.store import Store

_EVERY = 60.0
_PATIENCE = 5.0
_PAUSE = 0.2  #: between two slices, in which others write


class Upkeep:
    """Works from ``start`` to ``stop``. What does not work is told and tried again a minute later."""

    def __init__(self, store: Store, keep: Retention, log: TroubleLog) -> None:
        self._store, self._keep, self._log = store, keep, log
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
            try:
                while self._store.retain(time.time(), self._keep) and not self._stopped.wait(_PAUSE):
                    pass
                self._store.pass_on(time.time())
                self._store.compact(time.time())
            except ArchiveError as error:
                self._log.tell(f"upkeep: {error}", "upkeep")
