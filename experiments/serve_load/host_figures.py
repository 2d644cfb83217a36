"""The figures of the hosts themselves, beside the VMs that the generators emulate: without them no rule would judge.

Some hosts are overloaded all the time, the others are not; a little seeded noise makes every value new.
"""

from __future__ import annotations

import random
import threading
import time

import numpy as np

from acquisition.link.cluster import Cluster, Layout, read_layout
from acquisition.model.identity import entity_id
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.wire import frame, keys, table
from acquisition.wire.frame import Frame
from acquisition.wire.table import Entity, Table
from experiments.workload import host_name, host_number
from probes.metrics import HOST

_EPOCH = 1
_SET_ID = resource_set_id(HOST.name)
_SCHEMA = schema_hash(HOST.metrics)
_MEMORY = float(64 << 30)


class HostFigures:
    """Sends a frame of every host each second until it is closed; ``hot`` of the hosts are overloaded."""

    def __init__(self, cluster: Cluster, hosts: int, hot: int, seed: int) -> None:
        self._cluster = cluster
        self._layout: Layout = read_layout(cluster)
        self._hosts, self._hot = hosts, hot
        self._random = random.Random(f"host figures {seed}")
        self._sequence = 1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._send([self._table(index) for index in range(hosts)])
        self._thread.start()

    def close(self) -> None:
        """Send no more."""
        self._stop.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        due = time.time()
        while not self._stop.wait(max(0.0, due - time.time())):
            self._sequence += 1
            self._send([self._frame(index, time.time()) for index in range(self._hosts)])
            due += 1.0

    def _send(self, payloads: list[bytes]) -> None:
        commands = []
        for index, data in enumerate(payloads):
            key = keys.raw(self._layout.tag_of(host_number(index)))
            commands.append((key, ("XADD", key, "*", "f", data)))
        self._cluster.gather(commands)

    def _frame(self, index: int, wall: float) -> bytes:
        busy = self._random.uniform(0.93, 0.97) if index < self._hot else self._random.uniform(0.3, 0.6)
        known = {
            "cpu_idle_ratio": 0.99 - busy, "cpu_iowait_ratio": 0.01, "cpu_user_ratio": busy, "cpu_count": 32.0,
            "memory_total_bytes": _MEMORY, "memory_available_bytes": _MEMORY * (1.0 - busy / 2),
        }  # fmt: skip
        values = np.array([known.get(metric.name, busy) for metric in HOST.metrics], "<f4")
        return frame.encode(
            Frame(
                frame.KIND_SAMPLES, _SCHEMA, host_number(index), _SET_ID, 1, len(HOST.metrics), 1.0, _EPOCH,
                self._sequence, 1, (self._sequence - 2) * len(HOST.metrics), int(wall), wall, wall,
                np.array([_entity(index).id], "<u8").tobytes(), values.tobytes(), b"",
            )
        )  # fmt: skip

    def _table(self, index: int) -> bytes:
        wall = time.time()
        payload = table.encode(
            Table(host_name(index), HOST.name, 1.0, "emulated", True, HOST.metrics, (_entity(index),))
        )
        return frame.encode(
            Frame(
                frame.KIND_TABLE, _SCHEMA, host_number(index), _SET_ID, 0, 0, 1.0, _EPOCH, self._sequence, 1, 0,
                int(wall), wall, wall, payload=payload,
            )
        )  # fmt: skip


def _entity(index: int) -> Entity:
    name = host_name(index)
    return Entity(entity_id("host", name, "1"), "host", name, "1", name)
