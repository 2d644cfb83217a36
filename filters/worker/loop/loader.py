"""Loader of a partition's state from its shard, in the background."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import began_command, layout_command
from acquisition.link.resp import Address, Connection
from acquisition.wire import keys
from acquisition.wire.layout import Layout
from filters.kernels.step import Kernel
from filters.runtime.background_jobs import BackgroundJobs, Outcome
from filters.worker.loop.channel import Channel
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.restore import restore
from filters.worker.partitions.settings import FilterSettings
from filters.worker.step.native import step_of


class Loaded(NamedTuple):
    """A partition as held by its shard, the connection to that shard, and a list of damage."""

    partition: Partition
    connection: Connection
    damage: list[str]


class Loader:
    """Creates partitions, empty or loaded from the shards."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        settings: FilterSettings,
        kernels: tuple[Kernel, ...],
        background: BackgroundJobs,
    ) -> None:
        self._cluster = cluster
        self._layout = layout
        self._settings = settings
        self._kernels = kernels
        self._step = step_of(kernels)
        self._background = background

    def empty(self, number: int) -> Partition:
        """A partition without any data."""
        return Partition(number, self._layout.tags[number], self._layout.partitions, self._settings, self._step)

    def start(self, channel: Channel, address: Address, done: Callable[[Channel, Outcome], None]) -> None:
        """Load a channel's partition; ``done`` is called with the channel and the Loaded, or the error, unless
        the channel has been dropped meanwhile."""
        number, ticket = channel.partition.number, channel.begin_loading(address)

        def job() -> Loaded | None:
            return self._load(number, address) if channel.awaits(ticket) else None

        def finish(outcome: Outcome) -> None:
            if channel.awaits(ticket):
                done(channel, outcome)
            elif isinstance(outcome, Loaded):
                outcome.connection.close()

        self._background.submit(address, job, finish)

    def _load(self, number: int, address: Address) -> Loaded:
        partition = self.empty(number)
        connection = self._cluster.connect(address)
        try:
            damage = restore(partition, connection, self._kernels)
            if not partition.commit_id:  # a new or emptied shard: the layout may have been on it
                copies = keys.layouts_beside(number, self._layout.partitions)
                lost = [layout_command(copy, self._layout) for copy in copies]
                connection.pipeline([began_command(partition.tag, time.time()), *lost])  # or MOVED
            return Loaded(partition, connection, damage)
        except BaseException:
            connection.close()
            raise
