"""Small disk that fills in a moment: a tmpfs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(directory: Path, megabytes: int) -> Iterator[Path]:
    """``directory`` as a disk of so many megabytes, until the end of the block; who may not mount skips the test."""
    directory.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@contextmanager
def full(disk: Path) -> Iterator[None]:
    """Something else takes all room of a disk, until the end of the block."""
    taken = disk / "taken"
    try:
        with taken.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                while _written(file.fileno(), size):
                    pass
        yield
    finally:
        taken.unlink()


def _written(file: int, size: int) -> bool:
    try:
        return os.write(file, bytes(size)) == size
    except OSError:
        return False
