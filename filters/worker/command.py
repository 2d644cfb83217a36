"""``shardpulse filter``: smooth the samples pushed by probes, until stopped."""

from __future__ import annotations

import argparse
import json
import math
import signal
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

import msgspec

from acquisition import errors, help_text, log
from acquisition.config import Settings
from acquisition.config.endpoints import check, connect, with_addresses
from acquisition.config.inputs import Inputs
from acquisition.config.metric_registry import load_checked, registered
from acquisition.errors import ConfigError, ShardpulseError, TemporaryError, UnavailableError
from acquisition.link.layouts import LayoutPatience, read_layout
from acquisition.link.resp import Address
from acquisition.log import SHARDS, TroubleLog
from acquisition.model.inputs import Span
from acquisition.signing.files import verifier_of
from acquisition.supervision import Notifier, end_with_threads
from acquisition.wire.layout import Layout
from acquisition.wire.lease import Holder
from acquisition.wire.records.smoothed import MAX_PLANES
from acquisition.wire.signature import Verifier
from filters import kernels
from filters.runtime.memory import keep_freed_memory
from filters.worker.inputs.plan import ANY, InputsSettings, misnamed
from filters.worker.loop.assembly import leasing_worker, say
from filters.worker.loop.format_watch import FormatWatch
from filters.worker.loop.guard import Guard
from filters.worker.loop.leases import Leases, new_holder
from filters.worker.loop.worker import Worker
from filters.worker.partitions.settings import FilterSettings
from filters.worker.step import native

_DESCRIPTION = """\
Run one filter worker. It reads raw frames from the shards, computes a time-weighted moving average,
deviation and trend of every sample, and commits state and cursor in one transaction, so that it
may be killed and restarted at any time. Any number of workers, on any machines, share the
partitions; when one dies the others take over ([filter] lease_seconds).
Invalid entries are kept in the streams rejected:{PARTITION}, with the reason.
SIGHUP reloads the configuration (an invalid file is ignored); SIGTERM and Ctrl-C stop the
worker gracefully."""

_EXAMPLES = """\
shardpulse filter                            shards and settings from the configuration
shardpulse filter --shards 127.0.0.1:7600    the cluster of this shard
shardpulse filter --seconds 60 --json        stop after a minute and print the counters"""


def main(argv: list[str]) -> int:
    """Entry point of the sub-command; returns its exit code."""
    options = _parser().parse_args(argv)
    keep_freed_memory()
    end_with_threads(say.error)
    service = _Service(options)
    service.run()
    if options.json:
        print(json.dumps(service.counters))
    return errors.EXIT_OK


def filter_settings(settings: Settings, keep_ticks: int, verifier: Verifier | None = None) -> FilterSettings:
    """The filter's part of the configuration. Raises ConfigError for an unknown kernel or metric.

    The number of ticks kept was determined when the shards were started: all readers must agree.
    """
    chosen = settings.filter
    known = kernels.installed()
    for name in chosen.kernels:
        if name not in known:
            raise ConfigError(f"filter.kernels: unknown kernel {name!r}; expected one of {', '.join(known)}")
    if len(kernels.select(chosen.kernels)) > MAX_PLANES:
        raise ConfigError(f"filter.kernels: too many kernels: a record holds at most {MAX_PLANES} planes")
    return FilterSettings(
        kernels=tuple(chosen.kernels),
        tau_seconds=chosen.tau_seconds,
        tau=dict(chosen.tau),
        keep_ticks=keep_ticks,
        linger_seconds=chosen.linger_seconds,
        retention_seconds=chosen.retention_seconds,
        retention_bytes=chosen.retention_bytes,
        reader_retention_seconds=chosen.reader_retention_seconds,
        reader_retention_bytes=chosen.reader_retention_bytes,
        expire_seconds=chosen.expire_seconds,
        inputs=_inputs_settings(chosen.inputs),
        limits=chosen.limits.sizes,
        verifier=verifier,
    )


def _inputs_settings(chosen: Inputs) -> InputsSettings | None:
    known = registered()
    for key, patterns in (("thresholds", chosen.thresholds), ("slacks", chosen.slacks)):
        wrong = misnamed(patterns, known)
        if wrong is not None:
            raise ConfigError(
                f"filter.inputs.{key}: {wrong!r} matches no metric; expected SET.METRIC, such as vms.cpu_ratio"
            )
    if not chosen.enabled:
        return None
    for name in chosen.order_statistics:
        if name != ANY and name not in known:
            raise ConfigError(f"filter.inputs.order_statistics: unknown resource set {name!r}; use * for all")
    return InputsSettings(
        Span(chosen.window_seconds, chosen.window_least),
        Span(chosen.counted_seconds, chosen.counted_least),
        Span(chosen.plateau_seconds, chosen.plateau_least),
        order_statistics=tuple(chosen.order_statistics),
        thresholds=chosen.thresholds,
        slacks=chosen.slacks,
    )


_LOOK_SECONDS = 0.5  #: between checks for other shards on this machine
_QUIET_AT_FIRST, _QUIET_LATER = 1.0, 10.0  #: seconds before the wait for shards is reported


class _Service:
    """A worker that is rebuilt when the configuration changes; signals only set flags."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._deadline = time.monotonic() + options.seconds if options.seconds else math.inf
        self._stopped = False
        self._reload = False
        self._started = self._others_run = False
        self._condition = "starting"  #: description of its current work
        self._notifier = Notifier()
        self.counters: dict[str, int] = {}
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._signal)
        self._settings, self._verifier = self._read()
        self._apply_levels()
        check(self._settings.shards)
        self._me = self._holder()
        self._cluster = connect(self._settings.shards)

    def run(self) -> None:
        """Run until SIGTERM, SIGINT or the end of the given time."""
        self._notifier.ready()
        layout = self._wait_for_layout()
        while layout is not None and not self._over():
            settings = filter_settings(self._settings, layout.keep_ticks, self._verifier)
            worker, leases, watch, guard = leasing_worker(self._cluster, layout, settings, self._me)
            self._work(worker, leases, watch, guard)
            if self._over():
                self._notifier.stopping("releasing partitions")
            for name, count in worker.counters.items():
                self.counters[name] = self.counters.get(name, 0) + count
            before = self._settings
            if self._others_run and not self._over():
                layout = self._wait_for_layout()
            if self._reload and not self._over() and layout is not None:
                layout = self._load_again(layout)
            elif watch.changed and not self._over():
                layout = self._follow_format(leases)
            if self._over() or _other_leases(before, self._settings):
                leases.leave()
                self._me = self._holder()
            else:
                leases.close()

    def _work(self, worker: Worker, leases: Leases, watch: FormatWatch, guard: Guard) -> None:
        """Work until the end, or until the worker must be rebuilt."""
        self._started = self._others_run = False
        self._look = 0.0

        def between() -> float:
            watch.turn()
            guard.turn()
            self._tell(worker)
            self._notifier.turn(lambda: worker.trouble or self._condition)
            return min(leases.turn(), max(0.0, self._notifier.due - time.monotonic()))

        worker.run(lambda: self._over() or self._reload or self._others_run or watch.changed, between)

    def _tell(self, worker: Worker) -> None:
        """Report where the worker works as soon as it does; look for other shards while there is trouble with these."""
        if not self._started and worker.settled:
            self._started = True
            where = _listed(self._cluster.masters())
            say(f"smoothing {len(worker.partitions)} partitions on {where}; {self._step.text}")
        self._condition = f"smoothing {len(worker.partitions)} partitions"
        now = time.monotonic()
        if worker.trouble and now >= self._look:
            self._look = now + _LOOK_SECONDS
            self._others_run = self._cluster.is_replaced()

    def _apply_levels(self) -> None:
        log.apply(log.levels(self._settings.log.levels, self._options.log))

    def _holder(self) -> Holder:
        """Identity of this worker for others, and its method of computation."""
        self._step = native.chosen(kernels.select(self._settings.filter.kernels))
        figures = f"{zlib.crc32(_figures(self._settings)):08x}"
        return new_holder(self._settings.filter.lease_seconds, step=self._step.name, figures=figures)

    def _over(self) -> bool:
        return self._stopped or time.monotonic() >= self._deadline

    def _read(self) -> tuple[Settings, Verifier | None]:
        """The complete, checked configuration, with the shards of the command line, and the verifier of frames."""
        settings = load_checked(self._options.config)
        filter_settings(settings, settings.filter.keep_ticks)
        shards = with_addresses(settings.shards, self._options.shards)
        verifier = verifier_of(settings.filter.signing)
        return settings if shards is settings.shards else _with_shards(settings, shards.addresses), verifier

    def _load_again(self, layout: Layout) -> Layout | None:
        self._reload = False
        self._notifier.reloading()
        try:
            settings, verifier = self._read()
            if settings.shards != self._settings.shards:
                cluster = connect(settings.shards)
                layout = read_layout(cluster)
                self._cluster.close()
                self._cluster = cluster
            self._settings, self._verifier = settings, verifier
            self._apply_levels()
            say("configuration reloaded")
            if settings.filter.keep_ticks != layout.keep_ticks:
                say(f"filter.keep_ticks remains {layout.keep_ticks}: it is fixed when the shards are started")
        except ShardpulseError as error:
            say.warn(f"{error}; configuration unchanged")
        self._notifier.reloaded()
        return layout

    def _follow_format(self, leases: Leases) -> Layout | None:
        """The current layout of the shards. Raises ConfigError if it names a record format unknown to this version,
        after releasing the leases to newer workers."""
        try:
            layout = self._wait_for_layout()
        except ShardpulseError:
            leases.leave()
            raise
        if layout is not None:
            say(f"now writing records of format {layout.record_format}")
        return layout

    def _wait_for_layout(self) -> Layout | None:
        """The layout, waiting for shards that do not exist yet; None if stopped meanwhile.

        Raises the error that prevents reading it after waiting for ``--wait`` seconds.
        """
        troubles, patience = TroubleLog(say), LayoutPatience(self._options.wait, time.monotonic())
        quiet = _QUIET_LATER if self._others_run else _QUIET_AT_FIRST
        while not self._over():
            try:
                return read_layout(self._cluster)
            except (UnavailableError, TemporaryError, ConfigError) as error:
                if patience.ends(error, time.monotonic()):
                    raise
                troubles.fails(SHARDS, UnavailableError(f"waiting for shards: {error}"), quiet)
            self._notifier.turn(lambda: troubles.trouble)
            time.sleep(0.1)
        return None

    def _signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._stopped = True


def _other_leases(before: Settings, now: Settings) -> bool:
    """Whether leases and states of this worker are useless under the new settings."""
    return (before.shards, before.filter.lease_seconds, _figures(before)) != (
        now.shards, now.filter.lease_seconds, _figures(now)
    )  # fmt: skip


def _figures(settings: Settings) -> bytes:
    """Settings that determine the written figures."""
    chosen = settings.filter
    return msgspec.json.encode((chosen.kernels, chosen.tau_seconds, chosen.tau, chosen.inputs), order="sorted")


def _with_shards(settings: Settings, addresses: list[str]) -> Settings:
    return replace(settings, shards=replace(settings.shards, addresses=addresses))


def _listed(addresses: Sequence[Address]) -> str:
    return f"shard{'s' * (len(addresses) != 1)} {', '.join(map(str, addresses))}"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("filter", _DESCRIPTION, _EXAMPLES)
    help_text.add_shards(parser)
    help_text.add_wait(parser)
    help_text.add_seconds(parser)
    help_text.add_log(parser)
    parser.add_argument("--json", action="store_true", help="when stopped, print counters as JSON")
    return parser
