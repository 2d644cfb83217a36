"""Datasource class for Watcher: its ``DataSourceBase`` on a snapshot.

Contract: ``watcher/decision_engine/datasources/base.py`` of python-watcher 17.0. Values are moving
averages with the time constant of ``[filter]``, whatever ``period`` and ``granularity`` a strategy requests:
these define how stored samples are averaged, which is already done here.

**None and 0.0.** A value that is missing, was never valid, or is older than ``[snapshot]
down_after_seconds`` is None, and the reason is logged once; a true 0.0 is 0.0, never None. Treatment of None
by the strategies of Watcher 17.0:

- *workload stabilization*: a VM with the value None is never moved; its load counts within its host's. A host with
  None is excluded from the standard deviation; if the others are out of balance, the
  strategy fails on it (KeyError), and the audit ends without an action plan: nothing is moved wrongly.
- *workload balance*: a VM with the value None is omitted from the sum of its host, which then looks emptier
  than it is. Hosts are not queried.
- *basic consolidation*: None counts as 100% of the node's or the flavor's cores.
- *VM workload consolidation*: a VM with CPU None, and a truly idle one (0.0), counts with all its
  vCPUs; its memory with the allocated size, else with its flavor. A host's None counts as 0, and the sum over
  its VMs is used if that is more.
"""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import watcher.conf  # noqa: F401 - registers the options read by query_retry of the base
from watcher.common import exception
from watcher.decision_engine.datasources.base import DataSourceBase

from acquisition import log
from acquisition.config import Settings, load
from acquisition.errors import ShardpulseError
from acquisition.snapshot import SnapshotReader
from acquisition.terminal import ERROR, WARNING
from filters.watcher.meters import COMPUTE_NODE, INSTANCE, METERS, Meter, NoValue
from filters.watcher.readings import Readings, takes

LOG = log.category("watcher")
_WATCHERS_LOG = logging.getLogger(__name__)
_THEIR_LEVELS = {ERROR: logging.ERROR, WARNING: logging.WARNING, log.DEBUG: logging.DEBUG}

NAME = "shardpulse"
AVAILABLE, NOT_AVAILABLE = "available", "not available"  #: as in Watcher's own datasources
MEAN = "mean"
#: A figure of Nova's contained in Watcher's model; its Prometheus datasource returns it, too.
ROOT_DISK = "instance.disk"


class _Held(NamedTuple):
    """Readings valid until ``until`` (monotonic seconds); None: no shard could be read."""

    until: float
    readings: Readings | None


def _getter(kind: str, key: str) -> Callable[..., float | None]:
    """Getter of one metric: the value of ``METRIC_MAP[key]`` of a resource of this kind."""

    def get(
        helper: ShardpulseHelper,
        resource: Any,
        period: float = 300,
        aggregate: str = MEAN,
        granularity: float | None = 300,
    ) -> float | None:
        value: float | None = helper.statistic_aggregation(resource, kind, key, period, aggregate, granularity)
        return value

    return get


class ShardpulseHelper(DataSourceBase):  # type: ignore[misc]  # Watcher has no annotations
    """Answers a strategy from one snapshot, so that it compares loads of the same moment.

    Watcher creates one for each run of a strategy; an object that lives longer takes a new snapshot
    every ``hold_seconds``. ``settings`` default to those of all commands of shardpulse
    (``$SHARDPULSE_CONFIG``, ``/etc/shardpulse/shardpulse.toml``). Raises ConfigError or NoInputError if
    that file is wrong; shards that do not answer raise nothing, here or later.
    """

    NAME = NAME
    METRIC_MAP: ClassVar[dict[str, str | None]] = {
        **{key: METERS[key].name if key in METERS else None for key in DataSourceBase.METRIC_MAP},
        "instance_root_disk_size": ROOT_DISK,
    }

    def __init__(self, settings: Settings | None = None, hold_seconds: float = 60.0) -> None:
        super().__init__()
        self._settings = settings if settings is not None else load()
        log.send_to(_to_watcher)
        log.apply(log.levels(self._settings.log.levels))
        self._hold_seconds = hold_seconds
        self._held: _Held | None = None
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def check_availability(self) -> str:
        """``available`` if every shard can be read now, else ``not available``; the log names those that cannot."""
        try:
            found = self._read()
            errors, is_whole = found.errors, found.is_whole
        except ShardpulseError as error:
            errors, is_whole = (str(error),), False
        for message in errors:
            LOG.warn(message)
        return AVAILABLE if is_whole else NOT_AVAILABLE

    def list_metrics(self) -> set[str]:
        """The values of ``METRIC_MAP`` sent by some host; empty if no shard can be read."""
        readings = self._readings()
        return readings.names() | {ROOT_DISK} if readings is not None else set()

    def query_retry_reset(self, exception_instance: Exception) -> None:
        """Log the failure; no state is kept between two attempts that would need a reset."""
        LOG.warn(str(exception_instance))

    def _statistic_aggregation(
        self,
        resource: Any = None,
        resource_type: str | None = None,
        meter_name: str | None = None,
        period: float = 300,  # noqa: ARG002 - Watcher's signature; see the module on period and granularity
        aggregate: str = MEAN,
        granularity: float = 300,  # noqa: ARG002
    ) -> float | None:
        """The value of one metric of a compute node or an instance, or None (``DataSourceBase`` stores the others).

        Raises Watcher's MetricNotAvailable for a metric that we do not measure.
        """
        try:
            value = self._value(resource, resource_type, self._meter(meter_name), aggregate)
            if LOG.debugs:
                LOG.debug("answer", meter=meter_name, of=_name_of(resource), value=value)
            return value
        except NoValue as reason:
            self._tell(f"no {meter_name} of {_name_of(resource)}: {reason}")
            return None

    def statistic_series(
        self,
        resource: Any = None,
        resource_type: str | None = None,
        meter_name: str | None = None,
        start_time: datetime.datetime | None = None,
        end_time: datetime.datetime | None = None,
        granularity: float = 300,
    ) -> dict[datetime.datetime, float] | None:
        """The newest value by its time (UTC), if that lies between ``start_time`` and ``end_time``.

        Times without a zone are UTC, like Watcher's. Shards hold the last moments, not a history: use
        one of Watcher's other datasources for that. None without a value.
        """
        value = self._statistic_aggregation(resource, resource_type, meter_name, granularity=granularity)
        readings = self._readings()
        if value is None or readings is None:
            return None
        taken = datetime.datetime.fromtimestamp(readings.taken_at, datetime.UTC)
        early = start_time is not None and taken < _utc(start_time)
        late = end_time is not None and taken > _utc(end_time)
        return {} if early or late else {taken: value}

    # units as in ``METERS``; metrics that are not measured raise MetricNotAvailable, the root disk is Nova's figure
    get_host_cpu_usage = _getter(COMPUTE_NODE, "host_cpu_usage")
    get_host_ram_usage = _getter(COMPUTE_NODE, "host_ram_usage")
    get_host_outlet_temp = _getter(COMPUTE_NODE, "host_outlet_temp")
    get_host_inlet_temp = _getter(COMPUTE_NODE, "host_inlet_temp")
    get_host_airflow = _getter(COMPUTE_NODE, "host_airflow")
    get_host_power = _getter(COMPUTE_NODE, "host_power")
    get_instance_cpu_usage = _getter(INSTANCE, "instance_cpu_usage")
    get_instance_ram_usage = _getter(INSTANCE, "instance_ram_usage")
    get_instance_ram_allocated = _getter(INSTANCE, "instance_ram_allocated")
    get_instance_l3_cache_usage = _getter(INSTANCE, "instance_l3_cache_usage")
    get_instance_root_disk_size = _getter(INSTANCE, "instance_root_disk_size")

    def _meter(self, key: str | None) -> str:
        """The key, checked against ``METRIC_MAP``, in which an operator may disable metrics."""
        self._get_meter(key)
        if key not in METERS and key != "instance_root_disk_size":
            raise exception.MetricNotAvailable(metric=key)
        return str(key)

    def _value(self, resource: Any, resource_type: str | None, key: str, aggregate: str) -> float:
        if aggregate != MEAN:
            raise NoValue(f"unsupported aggregate {aggregate!r}: only {MEAN!r} is available")
        if key == "instance_root_disk_size":
            return float(_field(resource, "disk"))
        meter = METERS[key]
        if resource_type != meter.resource_type:
            raise NoValue(f"metric of a {meter.resource_type}, not of a {resource_type}")
        readings = self._readings()
        if readings is None:
            raise NoValue("no shard could be read")
        return _convert(meter, readings, resource)

    def _readings(self) -> Readings | None:
        """Held readings, or new ones; None, for the same time, after all attempts to read have failed."""
        with self._lock:
            now = time.monotonic()
            if self._held is None or now >= self._held.until:
                readings = self.query_retry(self._read)
                self._told.clear()
                for error in readings.errors if readings is not None else ():
                    LOG.warn(error)
                if LOG.informs and readings is not None:
                    LOG.info("snapshot", meters=len(readings.names()), errors=len(readings.errors))
                self._held = _Held(time.monotonic() + self._hold_seconds, readings)
            return self._held.readings

    def _read(self) -> Readings:
        """A new snapshot. Raises as ``SnapshotReader.latest`` does."""
        with SnapshotReader.from_settings(self._settings) as reader:  # Watcher never signals the end of use
            return Readings(reader.latest(takes), self._settings.snapshot.down_after_seconds)

    def _tell(self, reason: str) -> None:
        """Log a reason once per snapshot: strategies repeat the same queries."""
        if reason not in self._told:
            self._told.add(reason)
            LOG.warn(reason)


def _to_watcher(level: int, line: str) -> None:
    """Pass our log line to the log of Watcher's process, whose own configuration may suppress it too."""
    _WATCHERS_LOG.log(_THEIR_LEVELS.get(level, logging.INFO), "%s", line)


def _convert(meter: Meter, readings: Readings, resource: Any) -> float:
    if meter.resource_type == COMPUTE_NODE:
        place = readings.host(_field(resource, "hostname"))
    else:
        place = readings.vm(_field(resource, "uuid"))
    return meter.convert(lambda metric: readings.mean(place, metric), _vcpus(resource))


def _vcpus(resource: Any) -> int | None:
    try:
        return int(_field(resource, "vcpus"))
    except NoValue:
        return None


def _field(resource: Any, name: str) -> Any:
    """A field of one of Watcher's model objects; unset fields raise NotImplementedError."""
    try:
        return getattr(resource, name)
    except (AttributeError, NotImplementedError):
        raise NoValue(f"its {name} is missing in Watcher's model") from None


def _name_of(resource: Any) -> str:
    for name in ("hostname", "uuid"):
        try:
            return str(_field(resource, name))
        except NoValue:
            continue
    return repr(resource)


def _utc(when: datetime.datetime) -> datetime.datetime:
    return when.replace(tzinfo=datetime.UTC) if when.tzinfo is None else when
