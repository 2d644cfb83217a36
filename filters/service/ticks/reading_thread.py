"""Reading thread: one coherent snapshot per tick, published as a tick cache.

Verdicts are published as soon as they change.

It reads after a tick's interval and grace time are over, on absolute deadlines of the wall
clock, because ticks are numbered by it. In between it polls for arrivals: each host is judged by its newest sample
immediately. A failed shard is part of the picture; if nothing can be read, the service reports that until it recovers.
"""

from __future__ import annotations

import secrets
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from acquisition import log
from acquisition.errors import AdmissionError, ShardpulseError
from acquisition.log import SHARDS, TroubleLog
from acquisition.model import ticks
from acquisition.model.metric import resource_set_id
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.whole_reading import Takes
from filters.service.ticks.event_recorder import EventRecorder
from filters.service.ticks.tick_cache import NewestCache, TickCache

if TYPE_CHECKING:
    from acquisition.config.settings import Settings
    from filters.decisions.deciding import Decided
    from filters.judging.judge import TickJudge

LOG, _DECISIONS = log.category("serve.reading"), log.category("serve.decisions")
#: After the grace time: then the last frames of a tick are in the shards, not in transit.
_MARGIN_SECONDS = 0.005
_LONGEST_WAIT = 1.0  #: the clock is checked at least this often: it may step
_ARRIVALS_SECONDS = 0.1  #: between two polls for arrivals
_REST = 9.0  #: pause as a multiple of the CPU time of one poll, which limits polls to a tenth of a core

Publish = Callable[[TickCache], None]
Renew = Callable[["Decided"], None]


def takes_sets(names: Sequence[str]) -> Takes | None:
    """Filter of the blocks to read: those of the named resource sets, or all if none is named."""
    numbers = frozenset(map(resource_set_id, names))
    return (lambda _, number: number in numbers) if numbers else None


class ReadingThread:
    """Reads until stopped. The callbacks run in the reading thread: ``beat`` at least once between
    two readings, ``refuse`` if nothing has been read yet and a shard must not be contacted."""

    def __init__(
        self,
        settings: Settings,
        newest: NewestCache,
        publish: Publish,
        renew: Renew,
        fail: Callable[[], None],
        judge: TickJudge,
        beat: Callable[[], None],
        refuse: Callable[[AdmissionError], None] | None = None,
    ) -> None:
        self._settings = settings
        self._newest = newest
        self._publish = publish
        self._renew = renew
        self._fail = fail
        self._judge = judge
        self._recorder = EventRecorder()
        self._takes = takes_sets(settings.serve.resource_sets)
        self._instance = secrets.token_hex(4)
        self._number = 0
        self._beat = beat
        self._refuse = refuse
        self._stopping = threading.Event()
        self._reader: SnapshotReader | None = None
        self._log = TroubleLog(log.category("serve"))
        self._thread = threading.Thread(target=self._run, name="reading", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Stop after the current reading."""
        self._stopping.set()
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._beat()
            try:
                self.read_once()
                self._wait()
                continue
            except ShardpulseError as error:
                self._failed(str(error))
                self._log.fails(SHARDS, error)
                if isinstance(error, AdmissionError) and self._refuse is not None and self._newest.last is None:
                    self._refuse(error)
            except Exception as error:  # an internal error must not end the service: it is logged, and retried
                reason = f"internal error (bug): {type(error).__name__}: {error}"
                self._failed(reason)
                self._log.lasts(SHARDS, f"{reason}\n{traceback.format_exc()}", reason, patience=0.0)
            self._wait()
        if self._reader is not None:
            self._reader.close()

    def read_once(self) -> TickCache:
        """Take one picture and publish it. Raises ShardpulseError if nothing can be read."""
        reader = self._connected()
        snapshot = reader.coherent(self._takes)
        tick = ticks.coherent_tick(snapshot.began, self._settings.serve.interval_seconds, self._grace)
        self._number = max(self._number + 1, tick)
        judged = self._judge.judge(reader, snapshot)
        if _DECISIONS.debugs:
            for host, verdict in judged.decided.heat.verdicts.items():
                _DECISIONS.debug("verdict", host=host, outcome=verdict.outcome, reason=verdict.reason)
            for refused in judged.decided.plan.refusals if judged.decided.plan else ():
                vm = refused.vm.id if refused.vm else "any"
                _DECISIONS.debug("no move", host=refused.host.id, vm=vm, reason=refused.reason)
        if LOG.informs:
            LOG.info(
                "picture", number=self._number, blocks=len(snapshot.blocks), hot=len(judged.decided.heat.hot),
                errors=len(snapshot.errors), damaged=snapshot.damaged, seconds=time.time() - snapshot.began,
                blind=snapshot.blind or "no",
            )  # fmt: skip
        cache = TickCache(self._number, self._instance, snapshot, judged)
        self._log.over(SHARDS, "shards readable again")
        self._publish(cache)
        self._recorder.record(reader.cluster, judged.decided, snapshot.now)
        return cache

    @property
    def _grace(self) -> float:
        return self._settings.snapshot.grace_seconds

    def _connected(self) -> SnapshotReader:
        if self._reader is None:
            self._reader = SnapshotReader.from_settings(self._settings)
        return self._reader

    def _failed(self, reason: str) -> None:
        self._recorder.see_nothing(time.time(), reason)
        self._newest.fail(reason)
        self._fail()

    def read_arrivals(self) -> None:
        """Judge new arrivals, and publish if a verdict changes."""
        if self._newest.outage is not None or self._reader is None:
            return
        try:
            decided = self._judge.arrived(self._reader)
        except ShardpulseError:  # the next picture reports the error
            return
        if decided is not None:
            self._renew(decided)
            self._recorder.record(self._reader.cluster, decided, time.time())

    def _wait(self) -> None:
        """Wait until the next tick is complete, judging arrivals."""
        interval = self._settings.serve.interval_seconds
        now = time.time()
        due = (ticks.coherent_tick(now - _MARGIN_SECONDS, interval, self._grace) + 2) * interval
        due += self._grace + _MARGIN_SECONDS
        rest = _ARRIVALS_SECONDS
        while (left := due - time.time()) > 0 and not self._stopping.wait(min(left, rest, _LONGEST_WAIT)):
            if due - time.time() > interval + _LONGEST_WAIT:  # the clock stepped back
                return
            self._beat()
            began, spent = time.monotonic(), time.thread_time()
            if left > rest:
                self.read_arrivals()
            rest = max(_ARRIVALS_SECONDS, time.monotonic() - began, _REST * (time.thread_time() - spent))
