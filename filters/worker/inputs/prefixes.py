"""What the commands that keep decision inputs begin with, made once per resource set."""

from __future__ import annotations

from acquisition.wire import inputs as wire
from acquisition.wire import keys
from filters.worker.inputs.plan import Plan


class Prefixes:
    """What does not change in the commands of one (host, resource set)."""

    __slots__ = ("names", "parameters", "recent", "row", "slots")

    def __init__(self, tag: str, host: int, resource_set: int, keep_ticks: int, plan: Plan) -> None:
        records = (keys.inputs(tag, host, resource_set, slot) for slot in range(keep_ticks))
        self.slots = [f"*5\r\n$3\r\nSET\r\n${len(key)}\r\n{key}\r\n$".encode() for key in records]
        self.recent = keys.recent(tag, host, resource_set)
        self.row = f"*4\r\n$4\r\nHSET\r\n${len(self.recent)}\r\n{self.recent}\r\n".encode()
        self.names = wire.pack_names(plan.names)
        self.parameters = plan.thresholds.tobytes() + plan.slacks.tobytes()
