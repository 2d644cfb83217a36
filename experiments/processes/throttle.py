"""Throttle of a block device for some processes, by cgroup I/O controllers.

See cgroup-v1/blkio-controller.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

_V1, _V2 = Path("/sys/fs/cgroup/blkio"), Path("/sys/fs/cgroup")
_END_SECONDS = 5.0
#: Runs the following command as a member of a cgroup: the shell enters it, and becomes the command.
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def lacking(directory: Path) -> str:
    """Why the device below a directory cannot be slowed, and what to do about it; "" if it can."""
    if os.geteuid() != 0:
        return "slowing a device needs root"
    if not os.path.exists(f"/sys/dev/block/{_numbers(directory)}/queue"):
        return f"{directory} lies on no block device that can be slowed: choose one on a disk"
    v2 = _V2 / "cgroup.controllers"
    if not (_V1 / "blkio.throttle.read_bps_device").exists() and not (v2.exists() and "io" in v2.read_text().split()):
        return "slowing a device needs the controller blkio (cgroup v1) or io (v2)"
    groups = _V1 if _V1.exists() else _V2
    return "" if os.access(groups, os.W_OK) else f"slowing a device needs {groups} writable, which it is not here"


def _numbers(directory: Path) -> str:
    """MAJOR:MINOR of the whole disk below a directory."""
    device = os.stat(directory).st_dev
    place = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if (place / "partition").exists():
        return (place.resolve().parent / "dev").read_text().strip()
    return place.name


class Throttle:
    """A cgroup with limits for reading and for writing the device below ``directory``, in bytes per second; 0:
    unlimited. A context manager that removes the cgroup, after its processes have ended. Raises OSError in the cases of
    ``lacking``."""

    def __init__(self, directory: Path, bytes_per_second: int = 0) -> None:
        self._numbers = _numbers(directory)
        self._is_v1 = (_V1 / "blkio.throttle.read_bps_device").exists()
        self._group = (_V1 if self._is_v1 else _V2) / f"shardpulse-throttle-{os.getpid()}-{time.monotonic_ns():x}"
        if not self._is_v1:
            (_V2 / "cgroup.subtree_control").write_text("+io")
        self._group.mkdir()
        self.set(bytes_per_second)

    def set(self, bytes_per_second: int) -> None:
        """Change the limit."""
        if self._is_v1:
            for what in ("read", "write"):
                limit = f"{self._numbers} {bytes_per_second}"
                (self._group / f"blkio.throttle.{what}_bps_device").write_text(limit)
        else:
            limit = str(bytes_per_second or "max")
            (self._group / "io.max").write_text(f"{self._numbers} rbps={limit} wbps={limit}")

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Command line that runs ``arguments`` as a member."""
        return ["/bin/sh", "-c", _ENTER, str(self._group), *arguments]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + _END_SECONDS
        while self._group.exists() and time.monotonic() < deadline:
            with suppress(OSError):  # an ended member may not be gone yet
                self._group.rmdir()
                return
            time.sleep(0.01)
