"""What services noticed about VMs that people should know: kept beside their other events, and read by ``status``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from acquisition.printable import printable

PREFIX = "vm:"  #: then the kind and the id of the VM
FRESH_SECONDS = 900.0  #: for which a note is shown; one that goes on to hold is written again
REFRESH_SECONDS = 300.0
_LONGEST = 400  #: characters of a text

RENAMED, COPIED = "vm_renamed", "vm_copied"


class VmNote(NamedTuple):
    """``text`` about a VM, ``at`` by the clock of the service, seconds since 1970."""

    at: float
    about: str
    text: str


def encode(note: VmNote) -> str:
    """A note as text, short and printable."""
    return json.dumps([note.at, *(printable(word[:_LONGEST]) for word in note[1:])])


def decode(text: str) -> VmNote | None:
    """The note that ``text`` holds; None where it holds none."""
    try:
        at, about, said = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    sound = isinstance(at, float) and math.isfinite(at) and type(about) is type(said) is str
    return VmNote(at, about, said) if sound else None


def fresh(told: Mapping[str, str], now: float) -> list[VmNote]:
    """The notes in ``told`` that hold at ``now`` (seconds since 1970), the newest first."""
    notes = [decode(text) for name, text in told.items() if name.startswith(PREFIX)]
    return sorted((each for each in notes if each is not None and abs(now - each.at) < FRESH_SECONDS), reverse=True)
