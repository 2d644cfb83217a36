"""Feeder: a minimal sender of frames into the raw stream, for filter tests."""

from __future__ import annotations

import numpy as np

from acquisition.link.cluster import Cluster
from acquisition.model.metric import schema_hash
from acquisition.wire import frame as wire
from acquisition.wire import keys, table
from acquisition.wire.frame import Frame
from acquisition.wire.table import Table


class Feeder:
    """Makes frames of one (host, resource set) with right numbers and pushes them."""

    def __init__(self, cluster: Cluster, host: int = 7, resource_set: int = 3, epoch: int = 11) -> None:
        self.cluster = cluster
        self.host, self.resource_set, self.epoch = host, resource_set, epoch
        self.sequence = 0
        self.made = 0
        self.tag = keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(host, keys.DEFAULT_PARTITIONS)]

    def make(
        self,
        values: np.ndarray,
        monotonic: float,
        *,
        codes: np.ndarray | None = None,
        ids: list[int] | None = None,
        schema: int = 1,
        floor: int = 1,
        wall: float | None = None,
    ) -> bytes:
        """The next frame, encoded; ``values`` (n, m)."""
        matrix = np.asarray(values, "<f4")
        n, m = matrix.shape
        self.sequence += 1
        wall = 1_000_000.0 + monotonic if wall is None else wall
        data = wire.encode(
            Frame(
                wire.KIND_SAMPLES, schema, self.host, self.resource_set, n, m, 1.0, self.epoch, self.sequence,
                floor, self.made, int(wall), wall, monotonic,
                np.asarray(ids if ids is not None else range(1, n + 1), "<u8").tobytes(),
                matrix.tobytes(),
                b"" if codes is None else np.asarray(codes, "u1").tobytes(),
            )
        )  # fmt: skip
        self.made += n * m
        return data

    def table(self, payload: bytes) -> bytes:
        """The next frame, a table."""
        self.sequence += 1
        return wire.encode(
            Frame(
                wire.KIND_TABLE, 0, self.host, self.resource_set, 0, 0, 1.0, self.epoch, self.sequence, 1, self.made,
                0, 0.0, 0.0, payload=payload,
            )
        )  # fmt: skip

    def push_table(self, names: Table, wall: float, monotonic: float) -> None:
        """The table that says what the next frames hold, with the next number."""
        self.sequence += 1
        self.push(
            wire.encode(
                Frame(
                    wire.KIND_TABLE, schema_hash(names.metrics), self.host, self.resource_set, 0, 0, names.interval,
                    self.epoch, self.sequence, 1, self.made, int(wall), wall, monotonic, payload=table.encode(names),
                )
            )
        )  # fmt: skip

    def push(self, data: bytes) -> bytes:
        """XADD; answers the entry id."""
        entry: bytes = self.cluster.call(keys.raw(self.tag), "XADD", keys.raw(self.tag), "*", "f", data)
        return entry
