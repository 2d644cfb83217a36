"""Emulated host: a writer, by default the product's, with seeded samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.model.metric import ResourceSet, resource_set_id, schema_hash
from acquisition.outbox.catch_up import OLD
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.window import SendWindow
from acquisition.outbox.shedding import SHED_AFTER
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from acquisition.wire.table import Table
from experiments.emulation.fleet import Served
from experiments.emulation.membership import Membership, first_serials
from experiments.emulation.values import STRIP_ROWS, Strip
from experiments.emulation.workload import Workload, host_name, host_number, resource_set

_SOURCE = "emulated"
_HEADER_ROOM = 128
_SAMPLES = Samples._make  #: half the cost of calling Samples, for each frame
JITTER_STEPS = 200  #: sampling ends up to this many microseconds before its due time


class Common:
    """Values shared by all emulated hosts."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.strip = Strip(workload)
        self.set: ResourceSet = resource_set(workload.metrics)
        self.set_id = resource_set_id(self.set.name)
        self.schema = schema_hash(self.set.metrics)
        self.serials = first_serials(workload)

    def frame_bytes(self) -> int:
        """Maximum size of a frame in bytes, in a ring as well."""
        rows = self.workload.entities + 1
        return _HEADER_ROOM + 8 * rows + 5 * rows * self.workload.metrics


class HostWriter(Served, Protocol):
    """Part of a writer that an emulated host needs: ``acquisition.outbox.writer.Writer`` has it."""

    @property
    def problem(self) -> str:
        """Problem that keeps frames from being sent."""

    def wants_table(self, resource_set: int, /) -> bool:
        """Whether the filter may lack the names."""

    def offer(self, samples: Samples, /) -> int:
        """Number a frame and queue it."""

    def offer_table(self, names: Table, tick: int, wall: float, monotonic: float) -> int:
        """The same for the names."""

    def account(self) -> dict[str, Any]:
        """Counts and errors."""


class SampledHost(ABC):
    """One emulated host: ``made`` sample frames so far, offered to ``writer``; ``window`` counts them.

    ``log`` is the monotonic time of each, kept for hosts that are checked.
    """

    __slots__ = ("_common", "_start", "due", "index", "log", "made", "membership", "number", "registered", "writer")

    def __init__(self, common: Common, index: int, logged: bool, writer: HostWriter) -> None:
        self.index = index
        self.number = host_number(index)
        self.made = 0
        self.due = 0.0  #: next service time of its writer
        self.registered = (-1, 0, 0)  #: descriptor, events and generation in the event loop
        self.log: list[float] | None = [] if logged else None
        self.membership = Membership(common.workload, index, common.serials)
        self.writer = writer
        self._common = common
        self._start = common.strip.start(index)

    @property
    @abstractmethod
    def window(self) -> SendWindow:
        """Window of the writer over its frames, tables included: made, accepted, applied, sent again."""

    @property
    def problem(self) -> str:
        """Problem that keeps frames from being sent."""
        return self.writer.problem

    def waiting(self) -> int:
        """Frames, tables included, not known to be applied."""
        window = self.window
        return window.last - window.applied

    def account(self) -> dict[str, float]:
        """Counts of the writer's account, including its errors by kind."""
        account = self.writer.account()
        numbers = {name: value for name, value in account.items() if isinstance(value, int | float)}
        return numbers | {f"error_{kind}": count for kind, count in account["errors"].items()}

    def offer_table(self, tick: int, wall: float, monotonic: float) -> None:
        """Offer the names of all rows."""
        common = self._common
        table = Table(
            host_name(self.index),
            common.set.name,
            common.workload.interval,
            _SOURCE,
            True,
            common.set.metrics,
            self.membership.entities(),
        )
        self.writer.offer_table(table, tick, wall, monotonic)

    def early(self) -> float:
        """Seconds by which the next sampling ends before it is due: no two intervals are alike."""
        return (self._start + 97 * self.made) % JITTER_STEPS * 1e-6

    def sample(self, tick: int, wall: float, monotonic: float) -> int:
        """Make the next frame and offer it; returns its number of samples."""
        common, number = self._common, self.made
        membership = self.membership
        if membership.step(number) or self.writer.wants_table(common.set_id):
            self.offer_table(tick, wall, monotonic)
        members = membership.members
        rows = len(members.serials)
        metrics = common.workload.metrics
        strip = common.strip
        values, codes = strip.cut((self._start + number * strip.stride) % STRIP_ROWS, rows)
        made = (common.set_id, common.schema, rows, metrics, common.workload.interval, tick, wall, monotonic)
        self.writer.offer(_SAMPLES((*made, members.ids, values, codes)))
        self.made = number + 1
        if self.log is not None:
            self.log.append(monotonic)
        return rows * metrics


class Held(NamedTuple):
    """Limits of an outbox in memory: a maximum of frames and of seconds."""

    frames: int
    seconds: float


class EmulatedHost(SampledHost):
    """A host with the product's own writer and outbox."""

    __slots__ = ("_outbox",)

    writer: Writer

    def __init__(
        self,
        common: Common,
        index: int,
        seeds: list[Address],
        held: Held,
        position_interval: float,
        logged: bool = False,
        shed_after: float = SHED_AFTER,
        old: float = OLD,
        credentials: Credentials | None = None,
    ) -> None:
        size = max(held.frames * common.frame_bytes(), 1 << 16)
        self._outbox = Outbox(None, size, held.seconds)
        writer = Writer(
            host_number(index),
            host_name(index),
            seeds,
            credentials or Credentials(),
            self._outbox,
            position_interval=position_interval,
            shed_after=shed_after,
            old=old,
        )
        super().__init__(common, index, logged, writer)

    @property
    def window(self) -> SendWindow:
        """Window of the writer over its frames."""
        return self._outbox.window(self._common.set_id)

    def waiting(self) -> int:
        """Frames not known to be applied; none before the first one is made."""
        return super().waiting() if self._common.set_id in self._outbox.windows else 0
