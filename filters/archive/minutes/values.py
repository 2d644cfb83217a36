"""Values written to the archive: one per row, one ``Batch`` per transaction.

Times are seconds since 1970 (UTC). Ids (hosts, entities, epochs, commit ids) are unsigned 64-bit numbers as on the
wire; the store maps them to SQL types. Text may be any ``str``: NUL and lone surrogates are kept by a reversible
escape (``filters.archive.minutes.escape``).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.uint64]

MINUTE, FIVE_MINUTES, HOUR, DAY = 60, 300, 3600, 86400


class Statistic(enum.IntEnum):
    """Planes of a rollup. The names are the columns in SQL."""

    COUNT = 0  #: samples, valid or not
    VALID = 1  #: samples used by the other figures
    MEAN = 2
    DEVIATION = 3  #: of the population: sqrt(M2 / valid)
    LOW = 4
    HIGH = 5
    LAST = 6  #: the newest valid value, by tick
    P95 = 7  #: by nearest rank, if configured; without late samples


class Series(NamedTuple):
    """Key of a rollup. A change of the schema begins a new series."""

    host: int
    resource_set: int  #: acquisition.model.metric.resource_set_id
    epoch: int
    schema: int  #: acquisition.model.metric.schema_hash


class MinuteMatrix(NamedTuple):
    """One minute of all entities of a resource set, or 5 minutes or an hour.

    Written again under the same series and minute, it is merged into the existing row: counts are added, mean and
    deviation by Chan's formula, low and high; ``last`` is from the newer ``tick``. So a late frame is written as a
    matrix of its own samples only, with their number in ``late``.
    """

    series: Series
    minute: int  #: its beginning, seconds since 1970, a multiple of 60
    tick: int  #: its newest tick, which orders ``last``; for longer levels the newest minute
    ids: Ids  #: entities
    values: Floats  #: len(Statistic) x entities x metrics, NaN where missing
    late: int = 0  #: samples that arrived after the minute was closed
    passed_on: bool = False  #: the minute is in the coarser levels
    sketch: bytes | None = None  #: ``filters.archive.minutes.sketch`` of the metrics with percentiles


class Copy(NamedTuple):
    """An invalid sample with its original ``value``; NaN if there was none."""

    time: float
    value: float


class Episode(NamedTuple):
    """A run of invalid samples of one metric of one entity with one code.

    The first six fields, with the UTC day of ``start``, are its key: when written again, the newer state replaces the
    older one completely. An episode that spans midnight UTC is closed there and another one opened.
    """

    host: int
    resource_set: int
    entity: int
    metric: str
    code: int  #: acquisition.model.codes, without OUTLIER_FLAG
    start: float
    end: float  #: of the last invalid sample so far
    samples: int
    open: bool
    copies: tuple[Copy, ...] = ()


class Event(NamedTuple):
    """Something that happened; the same event written twice is one row.

    ``kind`` is a word (see docs/archive.md for all of them); ``details`` must be valid JSON (NaN becomes null).
    """

    time: float
    kind: str
    host: int | None = None
    entity: int | None = None
    details: Mapping[str, Any] = {}


class HostRow(NamedTuple):
    """A host by its name; ``first`` and ``seen`` widen existing rows."""

    host: int
    name: str
    first: float
    seen: float


class EntityEpoch(NamedTuple):
    """An entity on a host, from when it appeared to when it vanished. Key: entity and host.

    When written again, it widens ``appeared`` and ``seen`` and sets ``vanished``; names are kept.
    A VM that moved is another entity with the same ``stable`` and ``moved_from``.
    """

    entity: int
    host: int
    resource_set: int
    kind: str  #: host, process, vm
    stable: str
    epoch: str
    name: str
    appeared: float
    seen: float
    vanished: float | None = None
    moved_from: int | None = None  #: the previous host
    labels: Mapping[str, str] = {}


class MetricDefinition(NamedTuple):
    """The column ``place`` (0, 1 …) of frames of a schema; ``low`` and ``high`` may be infinite."""

    schema: int
    place: int
    resource_set: str
    name: str
    unit: str
    kind: str
    low: float
    high: float
    help: str


class Unprovided(NamedTuple):
    """A metric that a source never provides on a host: inventory, not an episode."""

    host: int
    resource_set: int
    metric: str
    since: float


class Run(NamedTuple):
    """A run of an experiment; when written again, its end and figures are set."""

    name: str
    started: float
    command: str
    ended: float | None = None
    figures: Mapping[str, Any] = {}


class Position(NamedTuple):
    """The newest sequence number of (host, resource set, epoch) with samples in the archive."""

    host: int
    resource_set: int
    epoch: int
    sequence: int


class Cursor(NamedTuple):
    """Progress of a partition in the archive. ``commit_id`` 0: nothing archived yet."""

    partition: int
    commit_id: int = 0
    entry: str = "0-0"  #: oldest stream entry still needed by an open minute
    state: bytes = b""  #: filters.archive.following.state
    positions: tuple[Position, ...] = ()


class Advance(NamedTuple):
    """A partition advances from the commit ``previous`` to ``commit_id``; ``positions`` are the changed ones."""

    partition: int
    previous: int  #: commit_id from ``Store.cursors`` or the last commit; 0: the first
    commit_id: int  #: fresh and random, not 0
    entry: str
    state: bytes = b""
    positions: tuple[Position, ...] = ()
    forgotten: tuple[Position, ...] = ()  #: of ended epochs: their rows are removed


class Batch(NamedTuple):
    """Written by one transaction, completely or not at all."""

    advances: tuple[Advance, ...]  #: in ascending order of partitions
    minutes: tuple[MinuteMatrix, ...] = ()
    episodes: tuple[Episode, ...] = ()
    events: tuple[Event, ...] = ()
    hosts: tuple[HostRow, ...] = ()
    entities: tuple[EntityEpoch, ...] = ()
    metrics: tuple[MetricDefinition, ...] = ()
    unprovided: tuple[Unprovided, ...] = ()
    runs: tuple[Run, ...] = ()
