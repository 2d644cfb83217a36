"""Dropping frames of a heavy partition that is to move: what its filter has committed is in the smoothed state."""

from __future__ import annotations

import contextlib
from typing import Any

from acquisition.errors import FrameError
from acquisition.shards.nodes import Command, Members
from acquisition.wire import commit, keys, readers
from acquisition.wire.readers import Cut
from acquisition.wire.stream_id import is_before


def trim_smoothed(members: Members, node: str, slot: int, patient: bool, asking: bool = False) -> None:
    """Drop the frames of a slot's raw streams that their filter has committed.

    ``patient``: those that other living readers still want stay; else these find a mark of what was cut. ``asking``:
    the slot is on its way to this node.
    """
    first: list[Command] = [("ASKING",)] if asking else []

    def ask(command: Command) -> Any:
        return members.pipeline(node, [*first, command])[-1]

    for name in members.keys(node, slot):
        if name.startswith(b"commit:{"):
            tag = name.decode()[len("commit:{") : -1]
            with contextlib.suppress(FrameError):  # a damaged commit says nothing of what is smoothed
                value = ask(("GET", keys.commit(tag)))
                cursor = commit.decode(value if isinstance(value, bytes) else b"").cursor
                claim = _claim(ask(("HGETALL", keys.readers(tag))), ask(("TIME",)))
                wanted = claim is not None and is_before(claim, cursor)
                gone = ask(("XTRIM", keys.raw(tag), "MINID", claim if patient and wanted else cursor))
                if wanted and not patient and isinstance(gone, int) and gone:
                    ask(("SET", keys.cut(tag), readers.encode_cut(Cut(cursor, gone))))


def _claim(fields: Any, clock: Any) -> bytes | None:
    return readers.oldest_claim(fields, clock) if isinstance(fields, list) and isinstance(clock, list) else None
