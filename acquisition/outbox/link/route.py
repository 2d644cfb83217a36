"""Route to the owner of a host's partition: the shards to ask, in order (no I/O)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acquisition.errors import ConfigError
from acquisition.link.local_shards import Found
from acquisition.link.resp import Address
from acquisition.link.routing import Stripe, parse_slots
from acquisition.wire import keys, layout


class Route:
    """Known route of a host in its cluster; ``tag`` is its partition's, "" until the layout is known."""

    def __init__(self, host: int) -> None:
        self.host = host
        self.tag = ""
        self.copy = ""  #: of the layout, to be asked for next
        self._seeds = Found("", ())
        self._known: list[Address] = []
        self._stripes: list[Stripe] = []

    def begin(self, seeds: Found) -> None:
        """Set the shards to ask; another cluster may have another layout."""
        if seeds.instance != self._seeds.instance:
            self.tag = ""
            self._known, self._stripes = [], []
        self._seeds = seeds

    @property
    def is_open(self) -> bool:
        """Whether the owners of the slots have to be asked for."""
        return not self._stripes

    def forget_owners(self) -> None:
        """The owner may have changed; the known shards can still be asked."""
        self._stripes = []

    def candidate(self, attempt: int, failed: Address | None) -> Address:
        """The shard to ask in this attempt: known shards and seeds in turn, except the one that has
        just ``failed`` if there are others; for local shards, all of which are in the state file, only the seeds. The
        very first is the owner, if the seeds are masters in slot order and the partition count is the usual one."""
        others: Sequence[Address] = () if self._seeds.instance else self._known
        known = list(dict.fromkeys([*self._seeds.addresses, *others]))
        left = [address for address in known if address != failed] or known
        if not attempt and failed is None:
            return left[keys.partition_of(self.host, keys.DEFAULT_PARTITIONS) * len(left) // keys.DEFAULT_PARTITIONS]
        return left[(attempt + self.host) % len(left)]

    def learn_slots(self, rows: Any, asked: Address) -> None:
        """Process the reply to CLUSTER SLOTS of the shard ``asked``. Raises ShardError if it makes no sense."""
        self._stripes = parse_slots(rows, asked)
        self._known = [owner for _, _, owner in self._stripes]

    def learn_layout(self, data: Any) -> bool:
        """Process the layout document; False for an unknown version."""
        self.tag = _tag(data, self.host)
        return bool(self.tag)

    def choose_copy(self, asked: Address | None, attempt: int) -> str:
        """Copy of the layout to ask for: one at ``asked``, as far as known, another one in each attempt."""
        own = [(low, high) for low, high, owner in self._stripes if owner == asked]
        known = zip(keys.layouts(), keys.layout_slots(), strict=True) if own else ()
        copies = [copy for copy, slot in known if any(low <= slot <= high for low, high in own)] or keys.layouts()
        self.copy = copies[(attempt + self.host) % len(copies)]
        return self.copy

    def slot(self) -> int:
        """Slot of what is needed next: the host's partition, or the layout."""
        return keys.slot_of(keys.raw(self.tag) if self.tag else self.copy)

    def owner(self) -> Address | None:
        """The shard that owns ``slot()``, None if there is none."""
        return self._owner_of(self.slot())

    def _owner_of(self, slot: int) -> Address | None:
        return next((address for low, high, address in self._stripes if low <= slot <= high), None)


def _tag(data: Any, host: int) -> str:
    """The hash tag of the host's partition by the layout document, "" if that is invalid."""
    try:
        return layout.decode(data).tag_of(host)
    except ConfigError:
        return ""
