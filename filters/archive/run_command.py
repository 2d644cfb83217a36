"""``shardpulse archive run``: follows the shards until it is stopped."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

from acquisition import errors, help_text, log
from acquisition.config import load
from acquisition.config.archive import Archive
from acquisition.config.endpoints import connect, with_addresses
from acquisition.config.settings import Settings
from acquisition.errors import ConfigError, ShardpulseError, TemporaryError, UnavailableError
from acquisition.link.layouts import LayoutPatience, read_layout
from acquisition.log import SHARDS, TroubleLog
from acquisition.signing.files import verifier_of
from acquisition.supervision import Notifier, end_with_threads
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder
from filters.archive.database import regressions
from filters.archive.database.engine import make_engine, told
from filters.archive.database.errors import ArchiveError, ArchiveFull
from filters.archive.database.migrating import migrate
from filters.archive.database.regressions import Judged
from filters.archive.database.store import Store
from filters.archive.following.follower import DATABASE, Follower, Limits
from filters.archive.following.leases import Leases
from filters.archive.following.partition import Rules
from filters.archive.minutes.values import DAY
from filters.archive.place import store_of, url_of, with_url

# -- Periodic work on the database, in a thread: removal of old rows, compaction of minutes.

UPKEEP = log.category("archive.upkeep")
_EVERY = 60.0
_PATIENCE = 5.0
_PAUSE = 0.2  #: between two slices, in which others write


class Upkeep:
    """Works from ``start`` to ``stop``. Failures are reported and retried a minute later.

    ``clock`` is the shards' clock, seconds since 1970, None while unknown: a machine with a stepped clock must not
    remove rows that are not old. ``judged``: regressions according to the finished periods.
    """

    def __init__(self, store: Store, settings: Settings, log: TroubleLog, clock: Callable[[], float | None]) -> None:
        self._store, self._settings, self._log, self._clock = store, settings, log, clock
        self.judged: Judged | None = None
        self._judge_at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="archive upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current work, unless the database does not answer."""
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
                while (removed := self._store.retain(now, self._settings.archive)) and not self._stopped.wait(_PAUSE):
                    if UPKEEP.informs:
                        UPKEEP.info("removed", parts=removed)
                passed_on, compacted = self._store.pass_on(now), self._store.compact(now)
                if UPKEEP.informs:
                    UPKEEP.info("compacted", passed_on=passed_on, matrices=compacted)
                self._judge(now)
            except ArchiveError as error:
                self._log.tell(f"upkeep: {error}", "upkeep")

    def _judge(self, now: float) -> None:
        settings = self._settings.regression
        if settings.metrics and now >= self._judge_at:
            self.judged = self._store.judge(settings, now)
            self._judge_at = regressions.next_judgement(settings, now)
            if UPKEEP.informs:
                UPKEEP.info("judged", series=len(self.judged.series), worse=len(self.judged.worse))


say = log.category("archive")
_LOOK_SECONDS = 1.0  #: between checks for other shards on this machine
_RETRY = 1.0
_TELL_EVERY = 3600.0  #: seconds
_SLICE = 0.1  #: maximum delay in seconds before a signal is handled


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of this action, except ``--archive``."""
    help_text.add_shards(parser)
    help_text.add_wait(parser)
    help_text.add_seconds(parser)
    help_text.add_log(parser)
    parser.add_argument(
        "--finish", action="store_true", help="when stopped, also store the minutes that are still open"
    )
    parser.add_argument("--json", action="store_true", help="when stopped, print counters as JSON")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Copy samples from the shards to the archive, until stopped. Any number may run: they share the partitions."""
    end_with_threads(say.error)
    service = _Service(options, settings)
    service.run()
    if options.json:
        print(json.dumps(service.counters))
    return errors.EXIT_OK


def prepare(settings: Archive) -> None:
    """Migrate the schema of a file: it belongs to this machine. On PostgreSQL, wait for `shardpulse archive
    migrate`, run by its owner. Raises ArchiveError."""
    url = url_of(settings)
    if url.get_backend_name() == "sqlite":
        engine = make_engine(url)
        with told(url), engine.begin() as connection:
            migrate(connection)
        engine.dispose()


class _Service:
    """A follower, rebuilt when shards with other partitions run; signals only set flags."""

    def __init__(self, options: argparse.Namespace, settings: Settings) -> None:
        self._options = options
        self._deadline = time.monotonic() + options.seconds if options.seconds else math.inf
        self._stopped = self._others_run = self._reload = False
        self._look = 0.0
        self._follower: Follower | None = None
        self._upkeep: Upkeep | None = None
        self._told: Judged | None = None
        self._tell_at = 0.0
        self._notifier = Notifier()
        self.counters: dict[str, int] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signal)
        log.apply(log.levels(settings.log.levels, options.log))
        self._all = replace(settings, archive=with_url(settings.archive, options.archive))
        self._settings = self._all.archive
        self._cluster = connect(with_addresses(settings.shards, options.shards))
        self._log = TroubleLog(say)
        self._verifier, self._sizes = verifier_of(settings.filter.signing), settings.filter.limits.sizes
        self._url = url_of(self._settings)

    def run(self) -> None:
        """Run until stopped."""
        self._notifier.ready()
        if not self._prepare():
            return
        with store_of(self._settings) as store:
            upkeep = self._upkeep = Upkeep(store_of(self._settings), self._all, self._log, self._clock)
            upkeep.start()
            try:
                while not self._over() and (layout := self._wait_for_layout()) is not None:
                    self._follow(layout, store)
            finally:
                upkeep.stop()

    def _prepare(self) -> bool:
        """``prepare``, waiting while the disk is full; False if stopped meanwhile."""
        while not self._over():
            try:
                prepare(self._settings)
                self._log.over(DATABASE, "disk space available again")
                return True
            except ArchiveFull as error:
                self._log.lasts(DATABASE, f"{error}; waiting, unread frames stay in the streams", patience=0.0)
            self._sleep(_RETRY)
        return False

    def _follow(self, layout: Layout, store: Store) -> None:
        follower = self._follower
        if follower is None or layout.tags != follower.tags:
            follower = self._follower = self._new_follower(layout, store)
        # otherwise shards came back empty: data that is only in memory is in no stream any more
        say(f"following {layout.partitions} partitions into {self._url.render_as_string()}")
        self._others_run = False
        while not self._over() and not self._others_run:
            self._sleep(follower.turn())
            self._look_for_others()
            self._tell_regressions(layout)
        if self._over():
            self._notifier.stopping("committing closed minutes")
        try:
            if self._options.finish and not self._others_run:
                follower.finish()
            if not self._others_run:
                follower.leave()
        except ShardpulseError as error:
            say.warn(f"{error}; uncommitted frames will be read again by the next archiver")
        counts = follower.counts
        self.counters = {**follower.counters, "archived": counts.archived, "gap": counts.gap, "open": counts.open}

    def _tell_regressions(self, layout: Layout) -> None:
        """Report regressions: when they are found, and every hour as long as they last."""
        judged, now = None if self._upkeep is None else self._upkeep.judged, self._clock()
        if judged is None or now is None or (judged is self._told and now < self._tell_at):
            return
        try:
            regressions.tell(self._cluster, layout.tags, judged, now)
            self._told, self._tell_at = judged, now + _TELL_EVERY
        except ShardpulseError as error:
            self._log.fails(SHARDS, error)

    def _new_follower(self, layout: Layout, store: Store) -> Follower:
        settings = self._settings
        me = Holder(os.urandom(8).hex(), round(settings.lease_seconds * 1000), _name())
        rules = Rules(settings.grace_seconds, settings.minutes_days * DAY, (*settings.percentiles,), self._sizes)
        limits = Limits(rules, settings.claim_seconds, verifier=self._verifier)
        leases = Leases(self._cluster, layout.tags, me)
        return Follower(self._cluster, layout, store, leases, self._log, limits)

    def _clock(self) -> float | None:
        return None if self._follower is None else self._follower.clock

    def _sleep(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        if self._reload:
            self._load_again()
        self._notifier.turn(self._condition)
        while not self._over() and (left := due - time.monotonic()) > 0:
            time.sleep(min(_SLICE, left))

    def _condition(self) -> str:
        followed = 0 if self._follower is None else len(self._follower.partitions)
        return self._log.trouble or f"following {followed} partitions into {self._url.render_as_string()}"

    def _look_for_others(self) -> None:
        now = time.monotonic()
        if self._log.trouble and now >= self._look:
            self._look = now + _LOOK_SECONDS
            self._others_run = self._cluster.is_replaced()

    def _over(self) -> bool:
        return self._stopped or time.monotonic() >= self._deadline

    def _wait_for_layout(self) -> Layout | None:
        """The layout, waiting for shards that do not exist yet; None if stopped meanwhile."""
        patience = LayoutPatience(self._options.wait, time.monotonic())
        while not self._over():
            try:
                return read_layout(self._cluster)
            except (UnavailableError, TemporaryError, ConfigError) as error:
                if patience.ends(error, time.monotonic()):
                    raise
                self._log.fails(SHARDS, UnavailableError(f"waiting for shards: {error}"))
            self._sleep(_SLICE)
        return None

    def _signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._stopped = True

    def _load_again(self) -> None:
        """Apply new log levels; passwords are read at each login, everything else is unchanged."""
        self._reload = False
        self._notifier.reloading()
        try:
            log.apply(log.levels(load(self._options.config).log.levels, self._options.log))
            say("log levels reloaded")
        except ShardpulseError as error:
            say.warn(f"{error}; log levels unchanged")
        self._notifier.reloaded()


def _name() -> str:
    return "".join(f"{socket.gethostname()}:{os.getpid()}".split())[:200] or "-"
