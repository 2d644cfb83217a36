"""What nobody has foreseen, in the words of a FrameError: it is put aside as that is, and reported with its place."""

from __future__ import annotations

import traceback

from acquisition.errors import FrameError


def unforeseen(error: Exception) -> FrameError:
    """An error of reason ``internal`` that names what was raised, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" in {each.name} ({each.filename.rpartition('/')[2]}:{each.lineno})" for each in where)
    return FrameError("internal", f"{type(error).__name__}: {error!s:.200}{place}; please report it")
