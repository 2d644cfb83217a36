"""Host figures beside the VMs of emulated hosts, as input for rules.

Without them no rule would have input.

Some hosts are always overloaded, the others never; a little seeded noise makes every value new. Each host
samples at its hashed phase (probes.sampling.schedule), as real ones do: hot ones at different moments.

    python -m experiments.emulation.host_figures     (one order and one answer as JSON lines, see ``main``)
"""

from __future__ import annotations

import contextlib
import select
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import parse_address
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.snapshot.reading.heads import dtype_of
from acquisition.wire import frame, keys, table
from acquisition.wire.frame import Frame
from acquisition.wire.table import Table
from experiments.emulation.membership import entity
from experiments.emulation.workload import host_name, host_number
from experiments.processes.control import Child, Orders, python, say
from probes.metrics import HOST
from probes.sampling.schedule import phase_of

_ANSWER_SECONDS = 60.0
_EPOCH = 1
SET_ID = resource_set_id(HOST.name)
SCHEMA = schema_hash(HOST.metrics)
_MEMORY = float(64 << 30)
_HEADER = dtype_of(frame.HEADER_FIELDS)
_NAMES = [metric.name for metric in HOST.metrics]
_CRC_START = 8
_CROWDED = 0.9  #: load from which eight tasks wait for a core
_NOTHING = ("hugepages_", "pressure_", "swap_", "cpu_steal_")
_PARTS = 20  #: of a second; the hosts with a phase in one send at its middle

_Busy = TypeVar("_Busy", float, npt.NDArray[np.float64])


def send_until_told(cluster: Cluster, frames: _Frames, orders: Orders) -> None:
    """A frame of every host each second, those of a part of the second at a time."""
    layout = read_layout(cluster)
    raw = [keys.raw(layout.tag_of(host_number(index))) for index in frames.order]
    _send(cluster, raw, [_table(index) for index in frames.order])
    say({"ready": True})
    parts = parts_of([phase_of(host_number(index), 1.0) for index in frames.order])
    for second in count(int(time.time()) + 1):
        for at, part in enumerate(parts):
            due = second + (at + 0.5) / _PARTS
            time.sleep(max(0.0, due - time.time()))
            if at == 0 and select.select([orders.fileno()], [], [], 0.0)[0]:  # not amid a tick: some would lack it
                orders.wait()
                return
            _send(cluster, raw[part], frames.tick(due, part))


def parts_of(phases: Sequence[float]) -> list[slice]:
    """Hosts that send in each part of a second, by their ascending ``phases`` (pure)."""
    edges = np.searchsorted(phases, np.arange(_PARTS + 1) / _PARTS).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]


def _send(cluster: Cluster, raw: list[str], payloads: list[bytes]) -> None:
    cluster.gather([(key, ("XADD", key, "*", "f", data)) for key, data in zip(raw, payloads, strict=True)])


class _Frames:
    """The frames of all hosts side by side, in the ``order`` of their phases: values that change from tick to tick are
    written into them."""

    def __init__(self, hosts: int, hot: int, seed: int) -> None:
        self.order = sorted(range(hosts), key=lambda index: phase_of(host_number(index), 1.0))
        self._random = np.random.default_rng(seed)
        is_hot = np.array(self.order) < hot
        self._lowest = np.where(is_hot, 0.93, 0.3)
        self._width = np.where(is_hot, 0.04, 0.3)
        self._sequences = np.full(hosts, 1)
        joined = b"".join(_frame(index) for index in self.order)
        self._data: npt.NDArray[np.uint8] = np.frombuffer(bytearray(joined), np.uint8).reshape(hosts, -1)
        self._heads = self._data[:, : _HEADER.itemsize].view(_HEADER)[:, 0]
        self._values = self._data[:, _HEADER.itemsize + 8 :].view("<f4")

    def tick(self, wall: float, part: slice) -> list[bytes]:
        """The next frame of a part of the hosts."""
        self._sequences[part] += 1
        sequences = self._sequences[part]
        busy = self._lowest[part] + self._width[part] * self._random.random(len(sequences))
        for column, values in enumerate(figures_at(busy)):
            self._values[part, column] = values
        changes: dict[str, Any] = {
            "sequence": sequences, "made": (sequences - 2) * len(_NAMES), "tick": int(wall), "wall": wall,
            "monotonic": wall,
        }  # fmt: skip
        for field, value in changes.items():
            self._heads[field][part] = value
        rows = self._data[part]
        self._heads["crc"][part] = [zlib.crc32(row[_CRC_START:].tobytes()) for row in rows]
        return [row.tobytes() for row in rows]


def figures_at(busy: _Busy) -> list[_Busy | float]:
    """Figures of a host with this CPU load, in the order of its table; guests of a crowded host wait."""
    waiting = 8.0 * (busy > _CROWDED)
    known: dict[str, Any] = {
        "tasks_runnable": 32.0 * busy + waiting, "vms_suffering_ratio": waiting, "vms_worst_suffering_ratio": waiting,
        "link_speed_bytes_per_second": 1.25e9,
        "cpu_idle_ratio": 0.99 - busy, "cpu_iowait_ratio": 0.01, "cpu_user_ratio": busy, "cpu_count": 32.0,
        "memory_total_bytes": _MEMORY, "memory_available_bytes": _MEMORY * (1.0 - busy / 2),
    }  # fmt: skip
    return [0.0 if name.startswith(_NOTHING) else known.get(name, busy) for name in _NAMES]


def table_of(index: int, interval: float = 1.0) -> Table:
    """Table of a host's own figures, every ``interval`` seconds."""
    return Table(host_name(index), HOST.name, interval, "emulated", True, HOST.metrics, (entity(index, 0),))


def _frame(index: int) -> bytes:
    return frame.encode(
        Frame(
            frame.KIND_SAMPLES, SCHEMA, host_number(index), SET_ID, 1, len(_NAMES), 1.0, _EPOCH, 2, 1, 0, 0, 0.0, 0.0,
            np.array([entity(index, 0).id], "<u8").tobytes(), bytes(4 * len(_NAMES)), b"",
        )
    )  # fmt: skip


def _table(index: int) -> bytes:
    wall = time.time()
    payload = table.encode(table_of(index))
    return frame.encode(
        Frame(
            frame.KIND_TABLE, SCHEMA, host_number(index), SET_ID, 0, 0, 1.0, _EPOCH, 1, 1, 0, int(wall), wall, wall,
            payload=payload,
        )
    )  # fmt: skip


@contextlib.contextmanager
def host_figures(shards: Sequence[object], hosts: int, hot: int, seed: int) -> Iterator[Child]:
    """Every host's own figures once a second, by a process of its own, until the end of the block, or until the order
    ``stop`` is answered; ``hot`` of the hosts are always overloaded."""
    with Child("host figures", python(__name__)) as child:
        child.send({"shards": [str(shard) for shard in shards], "hosts": hosts, "hot": hot, "seed": seed})
        child.receive(_ANSWER_SECONDS)
        yield child


def main() -> None:
    """The order ``{shards, hosts, hot, seed}`` is answered with ``{ready}``; ``{do: "stop"}`` with ``{stopped}``."""
    orders = Orders()
    task = orders.wait()
    cluster = Cluster([parse_address(text) for text in task["shards"]], timeout=10.0)
    frames = _Frames(task["hosts"], task["hot"], task["seed"])
    send_until_told(cluster, frames, orders)
    say({"stopped": True})


if __name__ == "__main__":
    main()
