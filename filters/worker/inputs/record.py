"""Encode decision inputs as pieces of the commands of a commit (layout in ``acquisition.wire.inputs``).

Pieces are joined once with everything else that a commit sends, as those of smoothed records are.
"""

from __future__ import annotations

import time

from acquisition.link.resp import pack
from acquisition.wire import inputs as wire
from acquisition.wire import recent
from filters.worker.batching import Item
from filters.worker.inputs.state import InputsState, Prefixes
from filters.worker.record import Piece, set_tail
from filters.worker.settings import FilterSettings

_LONGER = 1.25  #: recent values live longer than records, as their time to live is set anew more rarely
_END = b"\r\n"


class InputsEncoder:
    """One SET of the record and one HSET of the row per tick."""

    def __init__(self, settings: FilterSettings) -> None:
        self._versions = settings.versions
        self._keep_ticks = settings.keep_ticks
        self._expire = max(1, int(settings.expire_seconds))
        self._tail = set_tail(self._expire)

    def keep(self, item: Item, inputs: InputsState, row: bytes) -> None:
        """Leave the commands of one frame's tick to its partition; ``row`` is one of recent values without
        its header.

        They lie beside the smoothed records, whose slots count from 0: a later tick of the same place replaces them.
        """
        partition, state, frame = item
        prefixes = inputs.prefixes(partition.tag, state.host, state.resource_set, self._keep_ticks)
        if not inputs.layout_known:
            self._begin_layout(item, inputs, prefixes)
        slot, place = frame.tick % self._keep_ticks, inputs.step % inputs.plan.depth
        partition.keep_record(state, -1 - slot, self._record(item, inputs, row, prefixes.slots[slot], prefixes))
        partition.keep_record(state, -1 - self._keep_ticks - place, self._row(item, inputs, row, prefixes))
        if inputs.lives_until <= (now := time.monotonic()):
            inputs.live_until(now + (_LONGER - 1.0) * self._expire)
            partition.also(pack(("EXPIRE", prefixes.recent, int(_LONGER * self._expire) + 1)))

    def _begin_layout(self, item: Item, inputs: InputsState, prefixes: Prefixes) -> None:
        """Say whose the rows are from this step on, and forget whom no row names any more."""
        partition, state, frame = item
        key, layout = prefixes.recent, inputs.layouts[-1]
        if inputs.fresh:  # before the rows: what lies there is none of ours
            partition.keep_record(state, -1 - self._keep_ticks - inputs.plan.depth, [pack(("DEL", key))])
        data = recent.encode_layout(frame.ids, inputs.plan.names, self._versions.recent)
        partition.also(pack(("HSET", key, recent.layout_field(layout), data)))
        for gone in inputs.forget_layouts():
            partition.also(pack(("HDEL", key, recent.layout_field(gone))))
        inputs.layout_is_written()

    def _record(self, item: Item, inputs: InputsState, row: bytes, prefix: bytes, prefixes: Prefixes) -> list[Piece]:
        _, state, frame = item
        plan = inputs.plan
        head = wire.HEADER.pack(
            wire.MAGIC, self._versions.inputs, plan.columns, len(plan.derived), 0, frame.entities, plan.window,
            plan.depth, len(prefixes.names), state.resource_set, state.host, frame.schema, frame.interval, frame.epoch,
            frame.sequence, frame.tick, frame.wall, frame.monotonic, inputs.step, inputs.first, inputs.layouts[-1],
            plan.counted, plan.plateau, b"",
        )  # fmt: skip
        size = wire.record_size(plan.columns, frame.entities, len(plan.derived), plan.plateau) + len(prefixes.names)
        parts: list[Piece] = [
            prefix,
            b"%d\r\n" % size,
            head,
            frame.ids,
            inputs.ages(),
            prefixes.parameters,
            inputs.planes.tobytes(),
        ]
        if plan.derived:
            parts += (inputs.derived.tobytes(), row[-len(plan.derived) * frame.entities :])  # the codes come last
        parts += (prefixes.names, self._tail)
        return parts

    def _row(self, item: Item, inputs: InputsState, row: bytes, prefixes: Prefixes) -> list[Piece]:
        frame = item.frame
        head = recent.ROW_HEADER.pack(
            recent.ROW_MAGIC, self._versions.recent, inputs.plan.columns, 0, frame.entities, 0, frame.epoch,
            inputs.step, inputs.layouts[-1], frame.tick, frame.wall,
        )  # fmt: skip
        field = b"%d" % (inputs.step % inputs.plan.depth)
        size = recent.ROW_HEADER.size + len(row)
        begin = b"%b$%d\r\n%b\r\n$%d\r\n" % (prefixes.row, len(field), field, size)
        return [begin, head, row, _END]
