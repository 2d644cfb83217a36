"""Whom to ask, and who owns the partition of a host (no input or output)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acquisition.errors import ConfigError
from acquisition.link import slots
from acquisition.link.local_shards import Found
from acquisition.link.resp import Address
from acquisition.link.slots import Stripe
from acquisition.wire import keys, layout


class Route:
    """What a host has learnt of its cluster; ``tag`` is its partition's, "" until the layout is known."""

    def __init__(self, host: int) -> None:
        self.host = host
        self.tag = ""
        self._seeds = Found("", ())
        self._known: list[Address] = []
        self._stripes: list[Stripe] = []

    def begin(self, seeds: Found) -> None:
        """Take where the shards are to be asked for; those of another cluster may have another layout."""
        if seeds.instance != self._seeds.instance:
            self.tag = ""
            self._known, self._stripes = [], []
        self._seeds = seeds

    @property
    def is_open(self) -> bool:
        """Whether the owners of the slots have to be asked for."""
        return not self._stripes

    def forget_owners(self) -> None:
        """The owner may be another one by now; the shards that we know of can still be asked."""
        self._stripes = []

    def candidate(self, attempt: int) -> Address:
        """The shard to ask in this attempt: the ones that we know of and the seeds, in turn; of local shards, all of
        which the state file names, the seeds alone."""
        others: Sequence[Address] = () if self._seeds.instance else self._known
        known = list(dict.fromkeys([*self._seeds.addresses, *others]))
        return known[(attempt + self.host) % len(known)]

    def learn_slots(self, rows: Any, asked: Address) -> None:
        """Take the reply to CLUSTER SLOTS of the shard ``asked``. Raises ShardError when it makes no sense."""
        self._stripes = slots.parse(rows, asked)
        self._known = [owner for _, _, owner in self._stripes]

    def learn_layout(self, data: Any) -> bool:
        """Take the layout document; False when it is none that this version knows."""
        self.tag = _tag(data, self.host)
        return bool(self.tag)

    def slot(self) -> int:
        """The slot of what is needed next: the host's partition, or the layout."""
        return keys.slot_of(keys.raw(self.tag) if self.tag else keys.LAYOUT)

    def owner(self) -> Address | None:
        """The shard that owns ``slot()``, None when no shard does."""
        slot = self.slot()
        return next((address for low, high, address in self._stripes if low <= slot <= high), None)


def _tag(data: Any, host: int) -> str:
    """The hash tag of the host's partition by the layout document, "" when it is none."""
    try:
        return layout.decode(data).tag_of(host)
    except ConfigError:
        return ""
