"""``shardpulse filter``: smooth what the probes push, until told to stop."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from types import FrameType

from acquisition.config import Settings
from acquisition.config.metric_registry import load_checked
from acquisition.errors import ConfigError, ShardpulseError, TemporaryError, UnavailableError
from acquisition.link.cluster import Cluster, Layout, read_layout
from acquisition.link.endpoints import connect, with_addresses
from filters.allocator import keep_freed_memory
from filters.kernels import REGISTRY
from filters.settings import FilterSettings
from filters.worker import Worker

_DESCRIPTION = """\
Run one filter worker: it reads raw frames from the shards, keeps a moving average, deviation and
trend of every sample that knows time, and commits state and cursor in one transaction, so that it
can be killed and started again at any moment. SIGHUP reads the configuration again (a bad file
leaves the old one running); SIGTERM and Ctrl-C stop it in order."""

_EXAMPLES = """\
examples:
  shardpulse filter                               shards and settings from the configuration
  shardpulse filter --shards 127.0.0.1:7600       the shards that this one belongs to
  shardpulse filter --seconds 60 --json           stop after a minute and print the counters

exit codes: 0 stopped as told, 69 no shard answered within --wait, 77 credentials refused,
78 configuration wrong"""


def main(argv: list[str]) -> int:
    """Entry point of the sub-command; answers its exit code."""
    options = _parser().parse_args(argv)
    keep_freed_memory()
    settings = load_checked(options.config)
    cluster = connect(with_addresses(settings.shards, options.shards))
    layout = _wait_for_layout(cluster, options.wait)
    service = _Service(cluster, layout, options.config, settings)
    deadline = time.monotonic() + options.seconds if options.seconds else None
    service.run(deadline)
    if options.json:
        print(json.dumps(service.counters))
    return 0


def filter_settings(settings: Settings, layout: Layout) -> FilterSettings:
    """The filter's part of the configuration. Raises ConfigError for an unknown kernel."""
    chosen = settings.filter
    for name in chosen.kernels:
        if name not in REGISTRY:
            raise ConfigError(f"filter.kernels: there is no kernel {name!r}; there are {', '.join(REGISTRY)}")
    return FilterSettings(
        kernels=tuple(chosen.kernels),
        tau_seconds=chosen.tau_seconds,
        tau=dict(chosen.tau),
        keep_ticks=layout.keep_ticks,
        linger_seconds=chosen.linger_seconds,
        retention_seconds=chosen.retention_seconds,
        retention_bytes=chosen.retention_bytes,
        expire_seconds=chosen.expire_seconds,
    )


class _Service:
    """A worker that is built anew when the configuration changes; signals only set flags."""

    def __init__(self, cluster: Cluster, layout: Layout, config: str | None, settings: Settings) -> None:
        self._cluster = cluster
        self._layout = layout
        self._config = config
        self._settings = filter_settings(settings, layout)
        self._stopped = False
        self._reload = False
        self.counters: dict[str, int] = {}

    def run(self, deadline: float | None) -> None:
        """Until SIGTERM, SIGINT or the deadline (monotonic seconds)."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        signal.signal(signal.SIGHUP, self._hang_up)

        def over() -> bool:
            return self._stopped or (deadline is not None and time.monotonic() >= deadline)

        while not over():
            worker = Worker(self._cluster, self._layout, self._settings)
            worker.run(lambda: over() or self._reload)
            for name, count in worker.counters.items():
                self.counters[name] = self.counters.get(name, 0) + count
            if self._reload:
                self._reload = False
                self._load_again()

    def _load_again(self) -> None:
        try:
            self._settings = filter_settings(load_checked(self._config), self._layout)
            print("filter: configuration read again", file=sys.stderr)
        except ShardpulseError as error:
            print(f"filter: {error}; the old configuration stays", file=sys.stderr)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopped = True

    def _hang_up(self, _number: int, _frame: FrameType | None) -> None:
        self._reload = True


def _wait_for_layout(cluster: Cluster, seconds: float) -> Layout:
    """The layout, waiting for shards that are still starting."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return read_layout(cluster)
        except (UnavailableError, TemporaryError, ConfigError):
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shardpulse filter",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", metavar="FILE", help="TOML configuration (default: see `shardpulse config --help`)")
    parser.add_argument("--shards", metavar="HOST:PORT,...", help="any of the shards, instead of the configured ones")
    parser.add_argument("--wait", type=float, default=10.0, metavar="S", help="wait so long for shards (default 10)")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="N", help="stop after N seconds (default: never)")
    parser.add_argument("--json", action="store_true", help="print the counters as JSON when stopped")
    return parser
