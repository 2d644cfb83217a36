"""Filter step in memory, from samples to hosts as seen by rules.

One frame carries the samples of all hosts, another those of all guests: states, windows, averages and everything else
that the filter keeps are per row, so many hosts in one frame are equivalent to one frame per host. An absent sample has
the code MISSING, and its host is late. The product's own reader makes the readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, overload

import hiredis
import numpy as np
import numpy.typing as npt

from acquisition.config.settings import Filter
from acquisition.model import codes
from acquisition.model.inputs import RECENT_TICKS
from acquisition.model.metric import HOST_SET, Metric, ResourceSet, resource_set_id, schema_hash
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable, table_of
from acquisition.snapshot.values.members import Member
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.values.states import CURRENT, LATE
from acquisition.wire import frame as wire
from acquisition.wire import table
from acquisition.wire.records import smoothed
from experiments.simulation.arrays import Doubles, Floats, Ints
from filters import kernels
from filters.decisions import ratios
from filters.decisions.picture import Host, Picture, Reading, Vm
from filters.judging.judge import TickInputs
from filters.judging.observe import BlockReadings, ColumnCache, RowReadings
from filters.worker.compute.smoothing import Smoother
from filters.worker.inputs.plan import InputsSettings
from filters.worker.partitions.batch import Accepted, Batch
from filters.worker.partitions.rejections import Rejections
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.name_table import learn
from filters.worker.states.state import State
from probes.metrics import HOST, VMS

_HOST = resource_set_id(HOST_SET)
_BEGAN = 1.7e9  #: wall clock of second 0
_SETTINGS = FilterSettings(tau_seconds=Filter().tau_seconds, inputs=InputsSettings())


class Columns(NamedTuple):
    """Values (R,) by metric name as in the product, and their codes (R,)."""

    values: dict[str, Doubles]
    codes: npt.NDArray[np.uint8]


class _Stream:
    """Filter of one resource set."""

    def __init__(self, kind: ResourceSet, metrics: Sequence[str], rows: int, interval: float) -> None:
        known = {metric.name: metric for metric in kind.metrics}
        columns: tuple[Metric, ...] = tuple(known[name] for name in metrics)
        entities = tuple(table.Entity(row + 1, "", f"{row}", "", f"{row}") for row in range(rows))
        whole = table.Table("all", kind.name, interval, "", True, columns, entities)
        self._metrics, self._interval, self._schema = metrics, interval, schema_hash(columns)
        self._ids = np.arange(1, rows + 1, dtype="<u8").tobytes()
        self._member = Member("0", 1, resource_set_id(kind.name), "")
        self._state = State("0", 1, self._member.resource_set, _SETTINGS.keep_ticks)
        self._state.names = learn(None, table.encode(whole))
        self._names, self._smoother = Names(whole), Smoother(_SETTINGS, kernels.select(_SETTINGS.kernels))

    def take(self, at: float, columns: Columns) -> Block:
        """The block for a sample at second ``at``."""
        values = np.stack([columns.values[name] for name in self._metrics], 1).astype("<f4")
        marks = np.where(np.isnan(values), np.uint8(codes.MISSING), columns.codes[:, None])
        tick, wall = round(at / self._interval), _BEGAN + at
        flags = marks.tobytes() if marks.any() else b""
        made = wire.Frame(
            wire.KIND_SAMPLES, self._schema, 1, self._member.resource_set, len(values), len(self._metrics),
            self._interval, 1, tick, 1, 0, tick, wall, at, self._ids, values.tobytes(), flags,
        )  # fmt: skip
        with Batch(0, Rejections("0")) as batch:
            self._smoother.smooth([Accepted(batch, self._state, made.samples, wire.encode(made))])
            (command,) = batch.records.values()
        reader = hiredis.Reader()
        reader.feed(command)
        block = Block(1, self._member.resource_set, None)
        data: bytes = reader.gets()[2]
        block.take(smoothed.unpack_head(data), data)
        block.use_names(self._names, None)
        block.interval, block.state, block.age_seconds = self._interval, CURRENT, 0.0
        return block


class _Recent:
    """Last valid values of the metrics with decision inputs, for rules that require them."""

    def __init__(self) -> None:
        self._step = 0
        self._kept: dict[str, Floats] = {}  #: raw values and averages (2, ticks, rows), NaN where not valid
        self._in_order: dict[str, Floats] = {}  #: the same, oldest first, of requested metrics

    def take(self, block: Block, inputs: InputsTable) -> None:
        """Store a tick."""
        carried = len(inputs.metrics) - inputs.head.derived
        planes = {metric.name: at for at, metric in enumerate(block.metrics)}
        for metric, column in inputs.columns.items():
            if column >= carried:
                last, mean = inputs.section.derived[:2, column - carried]
                marks = inputs.section.codes[column - carried]
            else:
                last, mean, marks = (
                    each[:, planes[metric]] for each in (block.plane("last"), block.plane("mean"), block.codes())
                )
            if metric not in self._kept:
                self._kept[metric] = np.full((2, RECENT_TICKS, len(last)), np.nan, np.float32)
            valid = (marks & codes.CODE_MASK) == codes.VALID
            never_came = [step % RECENT_TICKS for step in range(self._step + 1, inputs.head.step)]
            self._kept[metric][:, never_came] = np.nan
            self._kept[metric][:, inputs.head.step % RECENT_TICKS] = np.where(valid, (last, mean), np.nan)
        self._step = inputs.head.step
        self._in_order.clear()

    def put(self, reading: Reading, row: int) -> Reading:
        """The reading with its last values."""
        if reading.metric not in self._kept:
            return reading
        oldest = self._step + 1 - RECENT_TICKS
        if reading.metric not in self._in_order:
            self._in_order[reading.metric] = np.roll(self._kept[reading.metric], -oldest, axis=1)
        raw, means = self._in_order[reading.metric][:, :, row]
        there = np.flatnonzero(~np.isnan(raw))
        return reading._replace(
            recent=raw[there].tolist(), recent_means=means[there].tolist(),
            recent_steps=(there + oldest).tolist(),
        )  # fmt: skip


class _Inputs:
    """Readings of a tick with the filter's decision inputs (filters.judging.observe.Inputs)."""

    def __init__(self, tables: TickInputs, recent: _Recent | None) -> None:
        self._tables, self._recent = tables, recent

    def complete(self, block: Block, row: int, metric: str, reading: Reading | None) -> Reading | None:
        """The reading as the product completes it, with recent values."""
        found = self._tables.complete(block, row, metric, reading)
        return found if found is None or self._recent is None else self._recent.put(found, row)


class _Guests(Sequence[Vm]):
    """The guests of a host, made on first access."""

    def __init__(self, make: Callable[[], Iterator[Vm]]) -> None:
        self._make = make
        self._made: tuple[Vm, ...] | None = None

    @overload
    def __getitem__(self, index: int) -> Vm: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Vm]: ...
    def __getitem__(self, index: int | slice) -> Vm | Sequence[Vm]:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> tuple[Vm, ...]:
        if self._made is None:
            self._made = tuple(self._make())
        return self._made


class Filtered:
    """The filter of hosts sampled every ``interval`` seconds, a whole number.

    A sample is the mean of the valid seconds of the interval. With ``history``, recent values are kept as well.
    """

    def __init__(self, hosts: int, guests: int, interval: int, history: bool) -> None:
        self.interval = interval
        self._streams: tuple[_Stream, ...] = ()
        self._rows = (hosts, guests)
        self._recent = _Recent() if history else None
        self._seconds: list[tuple[Columns, Columns]] = []
        self._views: list[BlockReadings] = []
        self._came = np.ones(hosts, np.bool_)

    def take(self, second: int, hosts: Columns, guests: Columns) -> bool:
        """Add a second; True if it completed a sample."""
        self._seconds.append((hosts, guests))
        if len(self._seconds) < self.interval:
            return False
        if not self._streams:
            kinds = zip((HOST, VMS), self._seconds[0], self._rows, strict=True)
            self._streams = tuple(
                _Stream(kind, tuple(first.values), rows, float(self.interval)) for kind, first, rows in kinds
            )
        samples = [_mean(each) for each in zip(*self._seconds, strict=True)]
        self._seconds = []
        self._came = samples[0].codes != codes.MISSING
        self._views = []
        for stream, sample in zip(self._streams, samples, strict=True):
            self._views.append(self._view(stream.take(second + 1.0, sample)))
        return True

    def _view(self, block: Block) -> BlockReadings:
        found, recent = table_of(block), None
        if self._recent is not None and found is not None and block.set_id == _HOST:
            recent = self._recent
            recent.take(block, found)
        tables = {} if found is None else {(block.host_id, block.set_id): found}
        return BlockReadings(block, _Inputs(TickInputs(tables), recent), ColumnCache())

    def picture(self, second: int, place: Ints, observed: Ints, labels: Sequence[Mapping[str, str]] = ()) -> Picture:
        """All hosts with their guests, which have been at ``place`` (V,) for ``observed`` (V,) seconds."""
        order = np.argsort(place, kind="stable")
        ends = np.cumsum(np.bincount(place, minlength=self._rows[0])).tolist()
        hosts = []
        for host, came in enumerate(self._came.tolist()):
            there = order[ends[host - 1] if host else 0 : ends[host]]
            readings = RowReadings(self._views[0], host, ratios.HOST)
            guests = _Guests(partial(self._guests, host, readings, there, observed, labels))
            hosts.append(Host(
                id_of(host), f"h{host}", CURRENT if came else LATE, 0.0, readings=readings, vms=guests,
            ))  # fmt: skip
        return Picture(second, float(second), hosts)

    def _guests(
        self, host: int, around: RowReadings, there: Ints, observed: Ints, labels: Sequence[Mapping[str, str]]
    ) -> Iterator[Vm]:
        derived = ratios.of_vm(around)
        for vm in there.tolist():
            readings = RowReadings(self._views[1], vm, derived)
            yield Vm(
                f"vm-{vm}", f"vm{vm}", id_of(host), age_seconds=0.0, readings=readings,
                labels=labels[vm] if labels else {}, observed_seconds=float(observed[vm]),
            )  # fmt: skip


def id_of(host: int) -> str:
    """The id of the host in a row."""
    return f"{host:016x}"


def _mean(seconds: Sequence[Columns]) -> Columns:
    """Means over the valid seconds; without a valid second, the code of the last one."""
    if len(seconds) == 1:
        return seconds[0]
    valid = np.stack([each.codes == codes.VALID for each in seconds])
    count = valid.sum(axis=0)
    values = {
        name: (np.stack([each.values[name] for each in seconds]) * valid).sum(0) / np.maximum(count, 1)
        for name in seconds[0].values
    }
    return Columns(values, np.where(count > 0, np.uint8(codes.VALID), seconds[-1].codes).astype(np.uint8))
