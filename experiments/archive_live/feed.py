"""Feed of many hosts' frames into the raw streams, with past entry ids."""

from __future__ import annotations

import argparse
import time

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.model.codes import RANGE
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from experiments.emulation.workload import host_number, resource_set

MINUTE = 60
_MEAN_RUN = 30.5  #: mean seconds for which a metric stays invalid: 1 to 60
_INVALID = 0.01


class Feed:
    """Frames of all hosts, second by second, added to the streams with the ids of their time."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace, began: int) -> None:
        self._cluster, self._options, self._began = cluster, options, began
        self._set = resource_set(options.metrics)
        self._random = np.random.default_rng(1)
        self._shape = (options.entities, options.metrics)
        self._values = self._random.random((64, *self._shape), dtype=np.float32)
        self._left = np.zeros((options.hosts, *self._shape), np.int16)  #: seconds for which each stays invalid
        self._epoch = time.time_ns()
        hosts = _alike(options.hosts, keys.tags(keys.DEFAULT_PARTITIONS))
        self._hosts = [(place, *host) for place, host in enumerate(hosts)]
        self._ids = [
            (np.arange(1, options.entities + 1, dtype="<u8") + (n << 20)).tobytes() for n in range(options.hosts)
        ]

    def push(self, tick: int) -> int:
        """Add the frames of a second; returns their number of samples."""
        begins = self._random.random(self._left.shape, dtype=np.float32) < _INVALID / _MEAN_RUN
        self._left = np.where(begins, self._random.integers(1, 61, self._left.shape, np.int16), self._left)
        codes = np.where(self._left > 0, RANGE, 0).astype(np.uint8)
        self._left = np.maximum(self._left - 1, 0)
        moment, cells = self._began + tick, self._shape[0] * self._shape[1]
        commands = []
        for place, host, tag in self._hosts:
            data = wire.encode(Frame(
                wire.KIND_SAMPLES, schema_hash(self._set.metrics), host, resource_set_id(self._set.name), *self._shape,
                1.0, self._epoch, tick + 1, 1, tick * cells, moment, float(moment), float(moment), self._ids[place],
                self._values[(place + tick) % 64].tobytes(), codes[place].tobytes() if codes[place].any() else b"",
            ))  # fmt: skip
            commands.append((keys.raw(tag), ("XADD", keys.raw(tag), f"{moment * 1000 + 500}-{place}", "f", data)))
        for reply in self._cluster.gather(commands):
            if isinstance(reply, Exception):
                raise reply
        return int(cells * len(self._hosts))

    def trim(self, tick: int) -> None:
        """Remove the entries before a tick from the streams."""
        first = (self._began + tick) * 1000
        tags = {tag for _, _, tag in self._hosts}
        self._cluster.gather([(keys.raw(tag), ("XTRIM", keys.raw(tag), "MINID", first)) for tag in tags])


def _alike(count: int, tags: tuple[str, ...]) -> list[tuple[int, str]]:
    """Hosts and their tags, equally many in each partition."""
    most = -(-count // len(tags))
    left, found, number = dict.fromkeys(tags, most), list[tuple[int, str]](), 0
    while len(found) < count:
        host = host_number(number)
        tag = tags[keys.partition_of(host, len(tags))]
        if left[tag]:
            left[tag] -= 1
            found.append((host, tag))
        number += 1
    return found
