"""File system free space by statvfs(3), in a child process.

The call hangs if a file server does not answer.

One hanging call makes all of them TIMEOUT, and the child is restarted (``probes.sources.in_child``).
"""

from __future__ import annotations

import os

from acquisition.model.codes import VALID
from probes.figures.row import Row
from probes.sources import Request
from probes.sources.parts import PartSource


def create(request: Request) -> FilesystemSource:
    """See ``probes.sources``."""
    return FilesystemSource(request)


class FilesystemSource(PartSource):
    """One entity for each path of the request; MISSING if the path does not exist."""

    kind = "filesystem"

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._paths = tuple(request.options["names"])

    def rows(self, seconds: float) -> dict[str, Row]:  # noqa: ARG002 - gauges need no interval
        """See ``PartSource``."""
        return {path: _row(path) for path in self._paths}

    def close(self) -> None:
        """See ``Source``."""


def _row(path: str) -> Row:
    try:
        found = os.statvfs(path)
    except OSError:
        return {}
    row: Row = {
        "space_total_bytes": (float(found.f_blocks * found.f_frsize), VALID),
        "space_available_bytes": (float(found.f_bavail * found.f_frsize), VALID),
    }
    if found.f_files:  # some file systems count no files
        row |= {"inodes_total": (float(found.f_files), VALID), "inodes_available": (float(found.f_favail), VALID)}
    return row
